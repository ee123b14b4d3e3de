package model

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/arch"
	"github.com/quern-llm/quern/go/model/nn"
)

// adapterDraft begins an adapter of an architecture.
func adapterDraft(arch string, alpha float32) *draft {
	d := &draft{}
	d.set("general.architecture", arch)
	d.set("general.type", "adapter")
	d.set("adapter.type", "lora")
	d.set("adapter.lora.alpha", alpha)
	return d
}

func floatBytes(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// weightsOf returns the weights of a tensor of floats; nil of others.
func weightsOf(t *testing.T, w *gguf.Tensor) []float32 {
	t.Helper()
	if w.Type != gguf.F32 && w.Type != gguf.F16 && w.Type != gguf.BF16 {
		return nil
	}
	v := make([]float32, w.Elems())
	if err := kernel.Dequantize(kernel.Type(w.Type), v, w.Data); err != nil {
		t.Fatal(err)
	}
	return v
}

// openAdapter loads an adapter for m.
func openAdapter(t *testing.T, m *Model, path string) (*Adapter, error) {
	t.Helper()
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	a, err := m.OpenAdapter(path, Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<28, "test")})
	if err == nil {
		t.Cleanup(a.Close)
	}
	return a, err
}

// A model with an adapter computes what the model computes whose weights have it merged into them: every matrix of
// every architecture, experts, embeddings and a tied output.
func TestAdaptersOfArchitectures(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata.Path(t, "archs"), "*.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d models: %v", len(files), err)
	}
	for _, path := range files {
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := f.GGUF.Str("general.architecture")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := arch.Lookup(name); err != nil {
			f.Close()
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gguf"), func(t *testing.T) { mergedEqualsAdapted(t, f, path, name) })
	}
}

func mergedEqualsAdapted(t *testing.T, f *File, path, name string) {
	m, adapter, merged := everyMatrix(t, f, path, name)
	a, err := openAdapter(t, m, adapter.write(t, "adapter.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	mm, err := load(t, merged.write(t, "merged.gguf"), Packed)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int32, 40)
	rnd := rand.New(rand.NewPCG(7, 8))
	for i := range ids {
		ids[i] = int32(rnd.IntN(m.Config.NVocab))
	}
	want, plain, got := newStepper(t, mm, len(ids)), newStepper(t, m, len(ids)), newStepper(t, m, len(ids))
	if err := got.r.SetAdapters([]*Adapter{nil, a}); err != nil {
		t.Fatal(err)
	}
	got.numbers, got.scales = []int32{1}, []float32{1}
	if len(m.Config.Encoder) > 0 {
		want.source, plain.source, got.source = 20, 20, 20
	}
	output := nn.Logits
	if !m.Has(output) {
		output = nn.Vectors
	}
	w, p, g := want.outputs(t, output, ids), plain.outputs(t, output, ids), got.outputs(t, output, ids)
	if d := difference(g, w); !(d <= 2e-3) {
		t.Errorf("%s with the adapter are %g of their size away from those of merged weights", output, d)
	}
	if d := difference(p, w); d < 0.05 {
		t.Errorf("%s without the adapter are as near as %g", output, d)
	}
}

// everyMatrix returns the model of a file, an adapter of all its matrices that can have one, and the model that has it merged
// into its weights.
func everyMatrix(t *testing.T, f *File, path, name string) (m *Model, adapter, merged *draft) {
	const rank, alpha = 3, 6
	m, err := loadFile(t, f, Packed, kvF32)
	if err != nil {
		t.Fatal(err)
	}
	const size = 0.3
	rnd := rand.New(rand.NewPCG(7, 7))
	adapter, merged = adapterDraft(name, alpha), read(t, path)
	tied, taken := !m.weights.Has("output.weight"), 0
	var refused []string
	add := func(tensor string, w []float32, dims []uint64) []float32 {
		in, out, n := int(dims[0]), int(dims[1]), 1
		if len(dims) > 2 {
			n = int(dims[2])
		}
		square := 0.0
		for _, x := range w {
			square += float64(x) * float64(x)
		}
		var scales []float32 // of products, which what adapters add is not multiplied by
		if v, err := m.weights.scales(tensor, n); err == nil && v != nil {
			scales = v.v
		}
		each := size * math.Sqrt(square/float64(len(w))) / (alpha / rank * math.Sqrt(rank))
		a, b := make([]float32, n*rank*in), make([]float32, n*out*rank)
		for i := range a {
			a[i] = float32(rnd.NormFloat64())
		}
		for i := range b {
			b[i] = float32(rnd.NormFloat64() * each)
		}
		sum := slices.Clone(w)
		for e := range n {
			for o := range out {
				for i := range in {
					d := 0.0
					for r := range rank {
						d += float64(b[(e*out+o)*rank+r]) * float64(a[(e*rank+r)*in+i])
					}
					if scales != nil {
						d /= float64(scales[e])
					}
					sum[(e*out+o)*in+i] += float32(alpha / rank * d)
				}
			}
		}
		aDims, bDims := []uint64{uint64(in), rank}, []uint64{rank, uint64(out)}
		if n > 1 {
			aDims, bDims = append(aDims, uint64(n)), append(bDims, uint64(n))
		}
		if tensor == "token_embd.weight" { // rows of A are looked up
			byToken := make([]float32, out*rank) // B above is [out][rank]: the rows
			copy(byToken, b)
			back := make([]float32, in*rank)
			for i := range in {
				for r := range rank {
					back[i*rank+r] = a[r*in+i]
				}
			}
			a, b, aDims, bDims = byToken, back, []uint64{rank, uint64(out)}, []uint64{rank, uint64(in)}
		}
		adapter.add(tensor+".lora_a", gguf.F32, floatBytes(a), aDims...)
		adapter.add(tensor+".lora_b", gguf.F32, floatBytes(b), bDims...)
		return sum
	}
	originals := slices.Clone(merged.tensors)
	for _, w := range originals {
		if len(w.Dims) < 2 || !strings.HasSuffix(w.Name, ".weight") {
			continue
		}
		v := weightsOf(t, &w)
		if v == nil {
			continue
		}
		before := *adapter
		sum := add(w.Name, v, w.Dims)
		last := adapter.tensors[len(adapter.tensors)-2:]
		if err := m.takes(pair{tensor: w.Name, a: &last[0], b: &last[1], rank: rank}); err != nil {
			*adapter = before
			refused = append(refused, shortName(w.Name))
			if !strings.Contains(err.Error(), "not supported") {
				t.Fatal(err)
			}
			continue
		}
		taken++
		to := merged.tensor(w.Name)
		to.Type, to.Data = gguf.F32, floatBytes(sum)
		if w.Name == "token_embd.weight" && tied && m.Has(nn.Logits) { // the output does not have what lookups have
			merged.add("output.weight", gguf.F32, floatBytes(add("output.weight", v, w.Dims)), w.Dims...)
		}
	}
	slices.Sort(refused)
	t.Logf("%d matrices; not %v", taken, slices.Compact(refused))
	return m, adapter, merged
}

// takes returns why the model cannot have a correction.
func (m *Model) takes(p pair) error {
	list, err := m.weights.corrected(p)
	if err != nil {
		return err
	}
	_, err = adapt(m.program, []*Adapter{(&Adapter{Rank: p.rank}).sketch(list)})
	return err
}

// outputs appends tokens, and returns an output of each.
func (s *stepper) outputs(t *testing.T, output string, ids []int32) [][]float32 {
	t.Helper()
	rows := s.fill(t, ids)
	s.r.Compute(output, rows)
	var out [][]float32
	for i := range rows {
		out = append(out, slices.Clone(s.r.Row(i)))
	}
	return out
}

// difference is the largest length of a difference of rows, relative to that of the row.
func difference(got, want [][]float32) float64 {
	most := 0.0
	for i := range want {
		d, l := 0.0, 0.0
		for j := range want[i] {
			x := float64(want[i][j])
			d += (float64(got[i][j]) - x) * (float64(got[i][j]) - x)
			l += x * x
		}
		if r := math.Sqrt(d / l); !(r <= most) {
			most = r
		}
	}
	return most
}

// Files that are no adapter of the model are refused in one line that says why.
func TestAdaptersRefused(t *testing.T) {
	m, err := load(t, testdata.Path(t, "models/TinyStories-656K-f32.gguf"), Mapped)
	if err != nil {
		t.Fatal(err)
	}
	const q = "blk.0.attn_q.weight"
	dims := func(a, b []uint64) func(d *draft) {
		return func(d *draft) {
			for i, dims := range [][]uint64{a, b} {
				x := d.tensor(q + []string{".lora_a", ".lora_b"}[i])
				n := uint64(1)
				for _, v := range dims {
					n *= v
				}
				x.Dims, x.Data = dims, make([]byte, 4*n)
			}
		}
	}
	rename := func(from, to string) func(d *draft) { return func(d *draft) { d.tensor(from).Name = to } }
	for _, c := range []struct {
		change func(d *draft)
		want   string
	}{
		{func(d *draft) {}, ""},
		{func(d *draft) { d.drop("general.type") }, `not an adapter: key "general.type" is missing, want "adapter"`},
		{func(d *draft) { d.set("general.type", "model") }, `key "general.type" is "model", want "adapter"`},
		{func(d *draft) { d.set("adapter.type", "ia3") }, `key "adapter.type" is "ia3", want "lora"`},
		{func(d *draft) { d.set("general.architecture", "qwen3") }, `an adapter of a model of architecture "qwen3", the model is of "llama"`},
		{func(d *draft) { d.set("adapter.alora.invocation_tokens", []uint32{1}) }, "(aLoRA) are not supported"},
		{func(d *draft) { d.set("adapter.lora.alpha", float32(math.NaN())) }, `key "adapter.lora.alpha": NaN, want a finite number`},
		{func(d *draft) { d.set("adapter.lora.alpha", "x") }, `"adapter.lora.alpha"`},
		{func(d *draft) { d.tensors = nil }, "an adapter without tensors"},
		{func(d *draft) { d.drop(q + ".lora_b") }, `tensor "` + q + `.lora_b" is missing`},
		{func(d *draft) { d.drop(q + ".lora_a") }, `tensor "` + q + `.lora_a" is missing`},
		{func(d *draft) { d.add("output_norm.weight", gguf.F32, make([]byte, 512), 128) }, `tensor "output_norm.weight": want a name that ends in .lora_a or .lora_b`},
		{func(d *draft) {
			rename(q+".lora_a", "blk.9.attn_q.weight.lora_a")(d)
			rename(q+".lora_b", "blk.9.attn_q.weight.lora_b")(d)
		}, `the model has no "blk.9.attn_q.weight"`},
		{func(d *draft) {
			rename(q+".lora_a", "output_norm.weight.lora_a")(d)
			rename(q+".lora_b", "output_norm.weight.lora_b")(d)
			dims([]uint64{128, 2}, []uint64{2, 1})(&draft{tensors: []gguf.Tensor{{Name: q + ".lora_a"}, {Name: q + ".lora_b"}}})
			d.tensor("output_norm.weight.lora_b").Dims = []uint64{2, 1}
			d.tensor("output_norm.weight.lora_b").Data = make([]byte, 8)
		}, "it is no matrix of products"},
		{dims([]uint64{64, 2}, []uint64{2, 128}), "shape [64 2], want [128 2]"},
		{dims([]uint64{128, 2}, []uint64{2, 64}), "shape [2 64], want [2 128]"},
		{dims([]uint64{128, 3}, []uint64{2, 128}), "shape [128 3], want [128 2]"},
		{dims([]uint64{128, 2000}, []uint64{2000, 128}), "rank 2000, want 1 to 1024"},
		{func(d *draft) {
			x := d.tensor(q + ".lora_b")
			x.Data = slices.Clone(x.Data)
			binary.LittleEndian.PutUint32(x.Data[8:], math.Float32bits(float32(math.Inf(1))))
		}, `tensor "` + q + `.lora_b"`},
	} {
		d := adapterDraft("llama", 4)
		d.add(q+".lora_a", gguf.F32, make([]byte, 4*2*128), 128, 2)
		d.add(q+".lora_b", gguf.F32, make([]byte, 4*2*128), 2, 128)
		c.change(d)
		path := d.write(t, "adapter.gguf")
		_, err := openAdapter(t, m, path)
		switch {
		case c.want == "":
			if err != nil {
				t.Error(err)
			}
		case err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), path+": "):
			t.Errorf("got %v, want %s: ... %s", err, path, c.want)
		}
	}
	if _, err := openAdapter(t, m, testdata.Path(t, "models/TinyStories-656K-f32.gguf")); err == nil {
		t.Error("a model is taken for an adapter")
	}
	if _, err := load(t, testdata.Path(t, "models/TinyStories-656K-lora-r32-f16.gguf"), Mapped); err == nil {
		t.Error("an adapter is taken for a model")
	}
}

// FuzzAdapter loads adapters that are anything: one that can be used, or what is wrong with it in a line that names the file.
func FuzzAdapter(f *testing.F) {
	q := read(f, "tiny-llama-f32.gguf").tensor("blk.0.attn_q.weight")
	in, out := q.Dims[0], q.Dims[1]
	for _, dims := range [][4]uint64{{in, 2, 2, out}, {in, 2, 3, out}, {out + 1, 2, 2, in}, {in, 1, 1, 2 * out}} {
		d := adapterDraft("llama", 4)
		d.add(q.Name+".lora_a", gguf.F32, make([]byte, 4*dims[0]*dims[1]), dims[0], dims[1])
		d.add(q.Name+".lora_b", gguf.F32, make([]byte, 4*dims[2]*dims[3]), dims[2], dims[3])
		b, err := os.ReadFile(d.write(f, "adapter.gguf"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(pool.Close)
	m, err := load(f, filepath.Join(golden, "tiny-llama-f32.gguf"), Packed)
	if err != nil {
		f.Fatal(err)
	}
	budget := mem.NewBudget(1<<28, "test")
	path := filepath.Join(f.TempDir(), "adapter.gguf")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := m.OpenAdapter(path, Options{Pack: pool.PackInto, Budget: budget})
		if err != nil {
			if !strings.HasPrefix(err.Error(), path) || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q is no line that names the file", err)
			}
		} else {
			if a.Tensors == 0 || a.Rank == 0 {
				t.Errorf("%+v", a)
			}
			a.Close()
		}
		if n := budget.Used(); n != 0 {
			t.Fatalf("%d bytes are still taken", n)
		}
	})
}
