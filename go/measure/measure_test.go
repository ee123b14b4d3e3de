package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// small measures next to nothing, in memory that just holds a matrix of floats.
func small(t *testing.T) *Bench {
	t.Helper()
	pool, err := kernel.NewPool(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	region, err := mem.Alloc(2*4*memoryIn*memoryOut, "a test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { region.Close() })
	return &Bench{
		Pool: pool, Memory: region.Bytes(), Budget: mem.NewBudget(1<<30, "a test"), Types: kernel.Types(),
		KV: []KV{{"f16", kernel.KVTypes{K: kernel.KVF16, V: kernel.KVF16}}}, Tokens: []int{1, 70}, Depth: 100, Repeats: 1,
	}
}

// Every type that the kernels take is measured, and what is counted is what the
// shapes say.
func TestRun(t *testing.T) {
	b := small(t)
	want := map[string][2]float64{} // bytes, multiply-adds
	for _, typ := range b.Types {
		row := float64(kernel.PanelBytes(typ, memoryIn)) / kernel.Panel // scales of rows may be padded
		want[fmt.Sprintf("matmul %v 1 false", typ)] = [2]float64{row * memoryOut, memoryIn * memoryOut}
		want[fmt.Sprintf("matmul %v 70 false", typ)] = [2]float64{row * memoryOut, 70 * memoryIn * memoryOut}
	}
	want["attention f16 1 false"] = [2]float64{101 * 8 * 128 * 2 * 2, 101 * 32 * 128 * 2}
	want["attention f16 70 false"] = [2]float64{170 * 8 * 128 * 2 * 2, (101 + 170) * 35 * 32 * 128 * 2}
	want["norm f32 70 true"] = [2]float64{70 * memoryIn * 4, 0}
	kernels := map[Kernel]int{}
	if err := b.Run(func(r *Result) error {
		kernels[r.Kernel]++
		name := fmt.Sprintf("%s %s %d %v", r.Kernel, r.Type, r.Tokens, r.FromCache)
		if len(r.Samples) != 1 || Median(r.Samples) <= 0 || len(r.Copies) != len(r.Samples) && r.Kernel == Pack || !(r.Bytes > 0) {
			t.Errorf("%s: %+v", name, r)
		}
		if w, ok := want[name]; ok && w != [2]float64{r.Bytes, r.MACs} {
			t.Errorf("%s: %g bytes and %g multiply-adds, want %g", name, r.Bytes, r.MACs, w)
		}
		delete(want, name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(want) > 0 {
		t.Errorf("not measured: %v", want)
	}
	types := len(kernel.Types())
	for k, n := range map[Kernel]int{Pack: types, Matmul: 4 * types, Attention: 2, Norm: 2, Quantize: 2} {
		if kernels[k] != n {
			t.Errorf("%d results of %s, want %d", kernels[k], k, n)
		}
	}
}

// Nothing that is measured goes through numbers that arithmetic is slow with.
func TestFill(t *testing.T) {
	region, err := mem.Alloc(1<<21, "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer region.Close()
	fill(region.Bytes())
	for i, v := range mem.Float32s(region.Bytes()) {
		if a := math.Abs(float64(v)); !(a > 1e-30 && a < 2) {
			t.Fatalf("number %d is %g", i, v)
		}
	}
	for at := 0; at < len(region.Bytes()); at += 2 {
		h := binary.LittleEndian.Uint16(region.Bytes()[at:])
		if e := h >> 10 & 31; e == 0 || e == 31 {
			t.Fatalf("the half at %d is %#x", at, h)
		}
	}
}

// What does not fit is refused, and yield can stop a run.
func TestRefused(t *testing.T) {
	b := small(t)
	b.Memory = b.Memory[:8<<20]
	b.Types, b.KV = []kernel.Type{kernel.F32}, nil
	nothing := func(*Result) error { return nil }
	if err := b.Run(nothing); err == nil {
		t.Error("a matrix of 64 MiB was measured in 8")
	}
	b.Types, b.KV, b.Depth = nil, []KV{{"f32", kernel.KVTypes{K: kernel.KVF32, V: kernel.KVF32}}}, 4096
	if err := b.Run(nothing); err == nil {
		t.Error("32 MiB of keys and values were measured in 8")
	}
	b.Depth, b.Budget = 0, mem.NewBudget(1<<10, "a test")
	if err := b.Run(nothing); !errors.As(err, new(*mem.LimitError)) {
		t.Errorf("buffers beyond the budget: %v", err)
	}
	b = small(t)
	stop := errors.New("enough")
	n := 0
	if err := b.Run(func(*Result) error { n++; return stop }); !errors.Is(err, stop) || n != 1 {
		t.Errorf("stopped with %v after %d results", err, n)
	}
}

func TestMedian(t *testing.T) {
	if got := Median([]time.Duration{9, 1, 4, 2}); got != 3 {
		t.Errorf("got %d, want 3", got)
	}
}
