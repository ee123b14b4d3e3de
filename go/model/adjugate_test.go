package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
)

// A small expert that neighbours share, times a scale, is as many more channels of each of them: the experts of Qwen 3 that are
// wider by them make the same.
func TestAdjugates(t *testing.T) {
	const scale, of = 0.25, 2
	d, ids := withAdjugates(t, scale)
	got, err := load(t, d.write(t, "x.gguf"), Packed)
	if err != nil {
		t.Fatal(err)
	}
	wide := &draft{}
	for _, kv := range d.kvs {
		if key, ok := strings.CutPrefix(kv.Key, "grovemoe."); ok {
			kv.Key = "qwen3moe." + key
		}
		wide.kvs = append(wide.kvs, kv)
	}
	wide.set("general.architecture", "qwen3moe")
	wide.set("qwen3moe.expert_feed_forward_length", uint32(2*got.Config.NFFExpert))
	wide.drop("qwen3moe.expert_group_scale") // which is not 1
	for _, x := range d.tensors {
		name, ok := strings.CutSuffix(x.Name, "_exps.weight")
		switch {
		case strings.HasSuffix(x.Name, "_chexps.weight"):
		case ok:
			wide.add(x.Name, gguf.F32, widened(x, *d.tensor(name + "_chexps.weight"), strings.HasSuffix(name, "down"), scale, of), wideDims(x.Dims, name)...)
		default:
			wide.tensors = append(wide.tensors, x)
		}
	}
	want, err := load(t, wide.write(t, "wide.gguf"), Packed)
	if err != nil {
		t.Fatal(err)
	}
	rows := newStepper(t, want, len(ids)).step(t, ids)
	far := 0.0
	for pos, row := range newStepper(t, got, len(ids)).step(t, ids) {
		for id, x := range row {
			far = max(far, math.Abs(float64(x-rows[pos][id])))
		}
	}
	if !(far <= 1e-4) {
		t.Errorf("logits differ by %g", far)
	}
}

// withAdjugates returns a model whose small experts count.
func withAdjugates(t *testing.T, scale float32) (*draft, []int32) {
	t.Helper()
	path, ids := keyModel(t, "own:grovemoe")
	d := read(t, path)
	d.set("grovemoe.expert_group_scale", scale)
	return d, ids
}

// They come from the disk with any of the experts that share them.
func TestAdjugatesStreamed(t *testing.T) {
	d, ids := withAdjugates(t, 0.25)
	path := d.write(t, "x.gguf")
	var want [][]float32
	for _, r := range []Residency{Packed, Streamed} {
		m, err := load(t, path, r)
		if err != nil {
			t.Fatal(err)
		}
		s := newStepper(t, m, len(ids))
		for i, id := range ids { // one by one, so that few experts are needed at a time
			row := s.step(t, []int32{id})[0]
			if r == Packed {
				want = append(want, row)
			} else if !slices.Equal(row, want[i]) {
				t.Fatalf("position %d: other logits than of weights in memory", i)
			}
		}
	}
}

// What they are multiplied by is what all experts are that share one.
func TestAdjugatesTapped(t *testing.T) {
	d, ids := withAdjugates(t, 0.25)
	m, err := load(t, d.write(t, "x.gguf"), Packed)
	if err != nil {
		t.Fatal(err)
	}
	s := newStepper(t, m, len(ids))
	s.r.Tap(true)
	s.step(t, ids)
	all := map[string]Tapped{}
	s.r.Tapped(func(tap Tapped) { all[tap.Tensor] = tap })
	small := 0
	for name, got := range all {
		stem, ok := strings.CutSuffix(name, "_chexps.weight")
		if !ok {
			continue
		}
		small++
		of, n := all[stem+"_exps.weight"], len(got.Counts)
		if len(of.Counts) != 2*n {
			t.Fatalf("%s: %d matrices, of %d experts", name, n, len(of.Counts))
		}
		for e, count := range got.Counts {
			if want := of.Counts[2*e] + of.Counts[2*e+1]; count != want {
				t.Errorf("%s, matrix %d: %d rows, want %d", name, e, count, want)
			}
		}
		if columns := len(got.Sums) / n; !strings.HasSuffix(stem, "down") { // which has another input
			for i, x := range got.Sums {
				at := i/columns*2*columns + i%columns
				if want := of.Sums[at] + of.Sums[at+columns]; math.Abs(x-want) > 1e-6*want {
					t.Fatalf("%s, number %d: squares of %g, want %g", name, i, x, want)
				}
			}
		}
	}
	if small != 3*len(m.Config.Layers) {
		t.Errorf("%d matrices that experts share, in %d layers", small, len(m.Config.Layers))
	}
	s.r.Tap(false)
}

func wideDims(dims []uint64, name string) []uint64 {
	dims = slices.Clone(dims)
	if strings.HasSuffix(name, "down") {
		dims[0] *= 2
	} else {
		dims[1] *= 2
	}
	return dims
}

// widened returns the matrices x of experts with, in each, the rows of the small one of its neighbours behind its own; or of the
// last product the columns.
func widened(x, small gguf.Tensor, last bool, scale float32, of int) []byte {
	var out []byte
	put := func(all []float32, by float32) {
		for _, v := range all {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v*by))
		}
	}
	a, b := numbers(x), numbers(small)
	n, in := int(x.Dims[2]), int(x.Dims[0])
	each := len(a) / n
	for e := range n {
		own, shared := a[e*each:(e+1)*each], b[e/of*each:(e/of+1)*each]
		if !last {
			put(own, 1)
			put(shared, 1)
			continue
		}
		for r := 0; r < each; r += in {
			put(own[r:r+in], 1)
			put(shared[r:r+in], scale)
		}
	}
	return out
}

func numbers(x gguf.Tensor) []float32 {
	n := 1
	for _, d := range x.Dims {
		n *= int(d)
	}
	out := make([]float32, n)
	types := map[gguf.Type]kernel.Type{gguf.F16: kernel.F16, gguf.F32: kernel.F32}
	typ, ok := types[x.Type]
	if !ok {
		panic(fmt.Sprint("tensor of ", x.Type))
	}
	if err := kernel.Dequantize(typ, out, x.Data); err != nil {
		panic(err)
	}
	return out
}
