package engine

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// What Memory says is enough, and a byte less is refused before the weights are
// read, by the name of what does not fit.
func TestMemoryIsExact(t *testing.T) {
	for _, file := range []string{"tiny-llama-mixed.gguf", "tiny-llama-tied-f16.gguf", "tiny-moe-f32.gguf"} {
		path := filepath.Join(golden, file)
		f := openFile(t, path)
		for _, tt := range []struct {
			threads int
			Config
		}{
			{1, Config{Ctx: 64, Batch: 1, Residency: model.Packed}},
			{2, Config{Ctx: 200, Sequences: 3, Residency: model.Packed, KV: kvcache.Both(kvcache.F32)}},
			{1, Config{Ctx: 64, Batch: 1, Residency: model.Mapped}},
			{3, Config{Ctx: 200, Batch: 8, Residency: model.Mapped}},
		} {
			c := tt.Config
			need, err := Memory(f, tt.threads, c)
			if err != nil {
				t.Fatal(err)
			}
			c.Device = deviceOf(t, DeviceConfig{Threads: tt.threads, Budget: mem.NewBudget(need.Total(), "a test")})
			budget := c.Device.Budget()
			e, err := Open(path, c)
			if err != nil {
				t.Errorf("%s, %+v: %v", file, c, err)
				continue
			}
			if got := budget.ByPurpose(); got["keys and values"] != need.KV || got["activations"] != need.Activations || budget.Peak() != need.Total() {
				t.Errorf("%s, %v: took %v, %d at most, want %+v", file, c.Residency, got, budget.Peak(), need)
			}
			e.Close()

			read := false
			c.Progress = func(uint64, uint64) { read = true }
			for _, less := range []uint64{1, need.Activations + 1, need.Activations + need.KV + 1} {
				budget := mem.NewBudget(need.Total()-less, "a test")
				c.Device = deviceOf(t, DeviceConfig{Threads: c.Device.Threads(), Budget: budget})
				var limit *mem.LimitError
				if _, err := Open(path, c); !errors.As(err, &limit) || limit.Need-limit.Free != less || !strings.Contains(err.Error(), "it needs ") {
					t.Errorf("%s, %v, %d bytes less: error %v", file, c.Residency, less, err)
				}
				if read || budget.Used() != 0 {
					t.Errorf("%s, %v: weights were read: %v; %d bytes are still taken", file, c.Residency, read, budget.Used())
				}
			}
		}
	}
}

// Auto packs the weights where keys, values and activations fit beside them.
func TestAutoResidency(t *testing.T) {
	path := filepath.Join(golden, "tiny-llama-mixed.gguf")
	f := openFile(t, path)
	for _, c := range []Config{{Ctx: 100, Batch: 4}, {Batch: 4}} {
		need, err := Memory(f, 1, c)
		if err != nil {
			t.Fatal(err)
		}
		for less, want := range map[uint64]model.Residency{0: model.Packed, 1: model.Mapped} {
			e := open(t, path, Config{Ctx: c.Ctx, Batch: 4, Device: deviceOf(t, DeviceConfig{Threads: 1, Budget: mem.NewBudget(need.Total()-less, "a test")})})
			if got := e.Model().Residency; got != want {
				t.Errorf("context %d, %d bytes less: %v, want %v", c.Ctx, less, got, want)
			}
		}
	}
}

// The shared memory is what was asked for, or half of what is free.
func TestSharedMemory(t *testing.T) {
	probe := open(t, tiny, Config{})
	block := uint64(probe.kv.Layout()[0].Bytes)
	e := open(t, tiny, Config{Shared: true, Sequences: 3, KVBytes: 4*block + 1})
	if e.kv.Limit() != 4*block || e.Ctx() != 3*kvcache.BlockTokens {
		t.Errorf("%d bytes, context %d", e.kv.Limit(), e.Ctx())
	}
	b := testBudget()
	_, err := Open(tiny, Config{Shared: true, Ctx: 200, KVBytes: 4 * block, Device: deviceOf(t, DeviceConfig{Threads: 1, Budget: b})})
	if err == nil || !strings.Contains(err.Error(), "200 tokens") || b.Used() != 0 {
		t.Errorf("a context beyond the memory: %v, %d bytes taken", err, b.Used())
	}
	var limit *mem.LimitError
	if _, err := Open(tiny, Config{Shared: true, KVBytes: 2 << 30, Device: device(t, 1)}); !errors.As(err, &limit) {
		t.Errorf("more than the budget: %v", err)
	}
}

// What a refusal says would fit does, and it says what there is.
func TestFitAdvice(t *testing.T) {
	path := filepath.Join(golden, "tiny-llama-mixed.gguf")
	f := openFile(t, path)
	c := Config{Ctx: 4096, Batch: 4, Residency: model.Packed}
	need, err := Memory(f, 1, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		limit uint64
		want  []string
	}{
		{need.Total() - 1, []string{"(-ctk q8_0 -ctv q8_0)", "(-c 3840)", "--weights mapped"}},
		{need.Weights + need.KV/3 + need.Activations, []string{"(-c 1280)"}},
		{need.Weights / 4, []string{"a smaller model, or a higher limit"}},
	} {
		b := mem.NewBudget(tt.limit, "a test")
		_, err := NewPlan(f, b, 1, c)
		var fit *FitError
		if !errors.As(err, &fit) || !strings.Contains(err.Error(), "limit are free (a test); what would fit: ") {
			t.Fatalf("with %d bytes: %v", tt.limit, err)
		}
		t.Log(err)
		for _, w := range tt.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("with %d bytes: %v; want %q in it", tt.limit, err, w)
			}
		}
	}
	c.KV, c.Ctx = kvcache.Both(kvcache.Q8), 3840
	if p, err := NewPlan(f, mem.NewBudget(need.Total()-1, "a test"), 1, c); err != nil || p.Need.Total() >= need.Total() {
		t.Errorf("what was advised: %+v, %v", p, err)
	}
}

// A refusal says what stays in memory of weights that are streamed.
func TestUnfitInParts(t *testing.T) {
	f := openFile(t, testdata.Path(t, "archs/deepseek2-mha.gguf"))
	c := Config{Residency: model.Streamed}
	need, err := Memory(f, 1, c)
	if err != nil || need.Apart == 0 || need.Apart >= need.Weights {
		t.Fatalf("%d bytes of %d are of matrices in parts, %v", need.Apart, need.Weights, err)
	}
	var fit *FitError
	if _, err := NewPlan(f, mem.NewBudget(need.Weights, "a test"), 1, c); !errors.As(err, &fit) || !strings.Contains(err.Error(), "of which the file has in several parts, and stay in memory") {
		t.Errorf("%v", err)
	}
}

// openFile opens the file of a model until the test ends.
func openFile(t *testing.T, path string) *model.File {
	t.Helper()
	f, err := model.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
