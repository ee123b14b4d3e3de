package model

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
)

// turnedModels are small models whose products are of each kind: stored with biases, added with a scale, gates of two matrices
// and of one tensor, functions, logits of a tied matrix.
var turnedModels = []string{
	"llama", "qwen2", "gemma2", "phi2", "phi3", "granite", "command-r", "starcoder2", "glm4", "bert", "modern-bert", "gpt2", "olmoe", "apertus",
}

// turnedPath returns the path of a small model.
func turnedPath(t *testing.T, name string) string {
	for _, path := range smallModels(t) {
		if filepath.Base(path) == name+".gguf" {
			return path
		}
	}
	t.Fatalf("there is no small model %s", name)
	return ""
}

// Gradients of adapters with magnitudes are what differences of the loss are while the lengths of rows stay, also where layers
// are kept, and what is written is served with the same matrices and gains.
func TestGradientOfMagnitudes(t *testing.T) {
	for _, name := range turnedModels {
		path := turnedPath(t, name)
		t.Run(name, func(t *testing.T) {
			m, tr, err := trainer(t, path, LoRA{Rank: 5, Alpha: 4, Magnitudes: true}, 1)
			if err != nil {
				t.Fatal(err)
			}
			most, where := differs(t, tr, someTexts(m.Config))
			t.Logf("%.4f of the gradient at most: %s", most, where)
			if most > 0.02 {
				t.Errorf("%.4f of the gradient: %s", most, where)
			}
			keepsTheSame(t, tr, someTexts(m.Config))
			servesWhatIsTrained(t, m, tr)
		})
	}
}

// So are those of a classifier's matrices.
func TestGradientOfMagnitudesOfScores(t *testing.T) {
	for name, of := range pooled(t) {
		if of.kind != nn.PoolRank {
			continue
		}
		m, tr, err := trainerOf(t, of.path, LoRA{Rank: 3, Alpha: 4, Magnitudes: true}, 1, of.kind)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if most, where := differs(t, tr, someTexts(m.Config)); most > 0.02 {
			t.Errorf("%s: %.4f of the gradient: %s", name, most, where)
		}
	}
}

// At the beginning an adapter with magnitudes changes nothing, to the bit: gains are 1.
func TestMagnitudesBeginAsTheModel(t *testing.T) {
	m, err := load(t, llamaFile, Mapped)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	tr, err := trainerFor(t, m, LoRA{Rank: 3, Alpha: 4, Magnitudes: true}, 2, nn.PoolNone)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := NewTuned(m, LoRA{Rank: 3, Alpha: 4, Magnitudes: true}, tr.budget)
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	copy(tr.Adapter.Numbers(), fresh.Numbers())
	if err := tr.Adapter.Moved(tr.pool); err != nil {
		t.Fatal(err)
	}
	texts := someTexts(m.Config)
	with, err := tr.Outcomes(texts, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	base, err := tr.Outcomes(texts, true, nil)
	if err != nil || fmt.Sprint(with) != fmt.Sprint(base) {
		t.Errorf("outcomes %v, of the model %v: %v", with, base, err)
	}
}

// Numbers that diverge are the same error as a loss that does.
func TestMagnitudesDiverge(t *testing.T) {
	_, tr, err := trainer(t, llamaFile, LoRA{Rank: 3, Alpha: 4, Magnitudes: true}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tr.Adapter.Numbers()[:tr.Adapter.plain] {
		tr.Adapter.Numbers()[i] = 1e38
	}
	if err := tr.Adapter.Moved(tr.pool); !errors.Is(err, ErrNotFinite) {
		t.Errorf("error %v, want %v", err, ErrNotFinite)
	}
}

// Lengths are of the rows of the model's file: one that was cut since it was loaded is refused.
func TestMagnitudesOfDamagedFile(t *testing.T) {
	_, tr, err := trainer(t, llamaFile, LoRA{Rank: 3, Alpha: 4, Magnitudes: true}, 1)
	if err != nil {
		t.Fatal(err)
	}
	adapter := turnedDraft(t, tr)
	b, err := os.ReadFile(llamaFile)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := load(t, path, Packed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	if err := m.Damaged(); err != nil {
		t.Fatal(err)
	}
	if _, err := openAdapter(t, m, adapter); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(b)/4)); err != nil {
		t.Fatal(err)
	}
	if _, err := openAdapter(t, m, adapter); !errors.Is(err, ErrDamaged) {
		t.Errorf("error %v, want %v", err, ErrDamaged)
	}
}

// Gradients with magnitudes are the same bytes for any number of threads and each instruction set.
func TestMagnitudesAreTheSameEverywhere(t *testing.T) {
	for _, path := range []string{llamaFile, turnedPath(t, "phi3")} {
		sameEverywhere(t, path, func(threads int) []byte {
			_, tr, err := trainer(t, path, LoRA{Rank: 6, Alpha: 4, Magnitudes: true}, threads)
			if err != nil {
				t.Fatal(err)
			}
			return gradientBytes(t, tr)
		})
	}
}

// turnedDraft is the adapter of a trainer as a file that tests change.
func turnedDraft(t *testing.T, tr *Trainer) (path string) {
	t.Helper()
	var b bytes.Buffer
	if _, err := tr.Adapter.Write(tr.m.Config.Arch, tr.Adapter.Numbers()).WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "turned.gguf")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A model with an adapter with magnitudes computes what the model does whose weights have it merged into them, at any scale and
// beside a plain one.
func TestMagnitudesMerge(t *testing.T) {
	path := testdata.Path(t, "models/TinyStories-656K-f32.gguf")
	m, tr, err := trainer(t, path, LoRA{Rank: 4, Alpha: 4, Magnitudes: true}, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, plain, err := trainer(t, path, LoRA{Rank: 2, Alpha: 2}, 1)
	if err != nil {
		t.Fatal(err)
	}
	base, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	scales := []float32{0.7, 0.5}
	var files []ScaledFile
	var adapters []*Adapter
	for i, x := range []*Trainer{tr, plain} {
		path := turnedDraft(t, x)
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, ScaledFile{f, scales[i]})
		a, err := openAdapter(t, m, path)
		if err != nil {
			t.Fatal(err)
		}
		adapters = append(adapters, a)
	}
	w, err := MergeAdapters(base, files, func(*gguf.Tensor) gguf.Type { return gguf.F32 })
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	merged := filepath.Join(t.TempDir(), "merged.gguf")
	if err := os.WriteFile(merged, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	mm, err := load(t, merged, Packed)
	if err != nil {
		t.Fatal(err)
	}
	ids := someTexts(m.Config)[0].Tokens[:40]
	want, without, got := newStepper(t, mm, len(ids)), newStepper(t, m, len(ids)), newStepper(t, m, len(ids))
	if err := got.r.SetAdapters(adapters); err != nil {
		t.Fatal(err)
	}
	got.numbers, got.scales = []int32{0, 1}, scales
	g, v, p := got.outputs(t, nn.Logits, ids), want.outputs(t, nn.Logits, ids), without.outputs(t, nn.Logits, ids)
	if d := difference(g, v); !(d <= 1e-4) {
		t.Errorf("logits with the adapters are %g of their size away from those of merged weights", d)
	}
	if d := difference(p, v); d < 0.05 {
		t.Errorf("logits without the adapters are as near as %g", d)
	}
}

// Files whose magnitudes do not fit are refused in one line that says why.
func TestMagnitudesRefused(t *testing.T) {
	m, err := load(t, testdata.Path(t, "models/TinyStories-656K-f32.gguf"), Mapped)
	if err != nil {
		t.Fatal(err)
	}
	const q = "blk.0.attn_q.weight"
	for _, c := range []struct {
		change func(d *draft)
		want   string
	}{
		{func(d *draft) {}, ""},
		{func(d *draft) { d.set("adapter.type", "lora") }, "want a name that ends in .lora_a or .lora_b"},
		{func(d *draft) { d.drop(q + ".lora_m") }, `tensor "` + q + `.lora_m" is missing`},
		{func(d *draft) { d.drop(q + ".lora_a") }, `tensor "` + q + `.lora_a" is missing`},
		{func(d *draft) { d.add("output_norm.weight", gguf.F32, make([]byte, 512), 128) }, ".lora_a, .lora_b or .lora_m"},
		{func(d *draft) {
			x := d.tensor(q + ".lora_m")
			x.Dims, x.Data = []uint64{64}, x.Data[:256]
		}, "shape [64], want [128]"},
		{func(d *draft) {
			x := d.tensor(q + ".lora_m")
			x.Data = slices.Clone(x.Data)
			binary.LittleEndian.PutUint32(x.Data[8:], math.Float32bits(float32(math.NaN())))
		}, `tensor "` + q + `.lora_m"`},
		{func(d *draft) {
			for _, end := range []string{".lora_a", ".lora_b", ".lora_m"} {
				d.tensor(q + end).Name = embeddingName + end
			}
			d.tensor(embeddingName + ".lora_a").Dims = []uint64{2, 2048}
			d.tensor(embeddingName + ".lora_a").Data = make([]byte, 4*2*2048)
			d.tensor(embeddingName + ".lora_m").Dims = []uint64{2048}
			d.tensor(embeddingName + ".lora_m").Data = make([]byte, 4*2048)
		}, "magnitudes of"},
	} {
		d := adapterDraft("llama", 4)
		d.set("adapter.type", "dora")
		d.add(q+".lora_a", gguf.F32, make([]byte, 4*2*128), 128, 2)
		d.add(q+".lora_b", gguf.F32, make([]byte, 4*2*128), 2, 128)
		d.add(q+".lora_m", gguf.F32, make([]byte, 4*128), 128)
		c.change(d)
		path := d.write(t, "adapter.gguf")
		a, err := openAdapter(t, m, path)
		switch {
		case c.want == "":
			if err != nil || !a.magnitudes {
				t.Errorf("%+v: %v", a, err)
			}
		case err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), path+": "):
			t.Errorf("got %v, want %s: ... %s", err, path, c.want)
		}
	}
	if _, _, err := trainer(t, turnedPath(t, "olmoe"), LoRA{Rank: 2, Alpha: 1, Magnitudes: true, Targets: []string{"ffn_up_exps"}}, 1); err == nil ||
		!strings.Contains(err.Error(), "magnitudes of") {
		t.Errorf("experts: error %v", err)
	}
}

// Lengths are taken in turns of the caller's, with its threads, and what they take is of its budget until the adapter is there.
func TestMagnitudesLoadInTurns(t *testing.T) {
	m, tr, err := trainer(t, llamaFile, LoRA{Rank: 5, Alpha: 4, Magnitudes: true}, 1)
	if err != nil {
		t.Fatal(err)
	}
	path := turnedDraft(t, tr)
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	turns, inside := 0, false
	o := Options{Budget: mem.NewBudget(1<<24, "test"), Turn: func(do func(threads int) error) error {
		if inside {
			t.Error("a turn within a turn")
		}
		inside = true
		defer func() { inside = false }()
		turns++
		return do(1 + turns%3)
	}, Pack: func(dst kernel.Matrix, first int, src kernel.Matrix) error {
		if inside {
			t.Error("packed within a turn")
		}
		return pool.PackInto(dst, first, src)
	}}
	a, err := m.OpenAdapter(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	free := Options{Budget: o.Budget, Pack: pool.PackInto}
	b, err := m.OpenAdapter(path, free)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if turns < tr.Adapter.Matrices || !bytes.Equal(a.region.Bytes(), b.region.Bytes()) {
		t.Errorf("%d turns, of %d matrices; the same adapter: %v", turns, tr.Adapter.Matrices, bytes.Equal(a.region.Bytes(), b.region.Bytes()))
	}
	if used := o.Budget.Used(); used != uint64(a.Bytes()+b.Bytes()) || o.Budget.Peak() <= used {
		t.Errorf("%d bytes of the budget are used, and %d were, of two adapters of %d", used, o.Budget.Peak(), a.Bytes())
	}
	free.Budget = mem.NewBudget(uint64(a.Bytes())+1000, "test")
	var full *mem.LimitError
	if _, err := m.OpenAdapter(path, free); !errors.As(err, &full) || !strings.Contains(err.Error(), "lengths of rows") {
		t.Errorf("without room for lengths: error %v", err)
	}
	if used := free.Budget.Used(); used != 0 {
		t.Errorf("%d bytes stay in use", used)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	free.Budget, free.Until = o.Budget, ended
	if _, err := m.OpenAdapter(path, free); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: error %v", err)
	}
}

// Rows of wide matrices are measured in several turns.
func TestLengthsInTurns(t *testing.T) {
	const in, out, rank = 1 << 12, 100, 63
	w := make([]float32, in*out)
	for i := range w {
		w[i] = float32(i%17) - 8
	}
	var data bytes.Buffer
	if err := writeFloats(&data, w); err != nil {
		t.Fatal(err)
	}
	x := turned{t: &gguf.Tensor{Name: "w", Type: gguf.F32, Dims: []uint64{in, out}, Data: data.Bytes()}, rank: rank, scale: 0.5,
		a: make([]float32, rank*in), b: make([]float32, out*rank)}
	for i := range x.b {
		x.b[i] = float32(i % 5)
	}
	for i := range x.a {
		x.a[i] = float32(i%3) / 4
	}
	want, got := make([]float32, out), make([]float32, out)
	if err := x.lengths(want, 3); err != nil {
		t.Fatal(err)
	}
	turns := 0
	if err := x.lengthsInTurns(got, Options{Turn: func(do func(threads int) error) error { turns++; return do(2) }}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) || turns != 2 { // of 32 rows for each of two threads
		t.Errorf("%d turns; the same lengths: %v", turns, slices.Equal(got, want))
	}
}
