package model

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/arch"
	"github.com/quern-llm/quern/go/model/nn"
)

// A witness is what another implementation computes for a small model.
type witness struct {
	IDs    []int32 `json:"ids"`
	Answer []int32 `json:"dec_ids"` // after the token that answers begin with, where an encoder reads the ids
	Greedy []int32 `json:"greedy"`
	Within float64 `json:"within"` // of its logits, where it rounds more than others
	Top    []struct {
		Pos  int          `json:"pos"`
		Top  [][2]float64 `json:"top"`
		Mean float64      `json:"mean"`
		L2   float64      `json:"l2"`
	} `json:"logits_top"`
}

// smallModels returns the paths of the small models of every architecture: those of the test data, and our own beside them.
func smallModels(tb testing.TB) []string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(testdata.Path(tb, "archs"), "*.gguf"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("%d models: %v", len(files), err)
	}
	own, err := filepath.Glob("testdata/archs/*.gguf")
	if err != nil || len(own) == 0 {
		tb.Fatalf("%d models of our own: %v", len(own), err)
	}
	return append(files, own...)
}

// Every architecture gives the logits and the text of another implementation, on
// small models with every kind of layer.
func TestArchitectures(t *testing.T) {
	seen := map[string]bool{}
	for _, path := range smallModels(t) {
		name := strings.TrimSuffix(filepath.Base(path), ".gguf")
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		a, err := f.GGUF.Str("general.architecture")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := arch.Lookup(a); err != nil {
			f.Close()
			continue // one line, and not of what this architecture says
		}
		seen[a] = true
		cfg, err := f.Config()
		if err != nil {
			t.Fatal(err)
		}
		compare := against
		if cfg.BothWays {
			compare = againstVectors
		}
		t.Run(name, func(t *testing.T) { compare(t, f, strings.TrimSuffix(path, ".gguf")+".json") })
	}
	for _, name := range arch.Names() {
		if seen[name] == slices.Contains(ofTransformers, name) {
			t.Errorf("%s has a model: %v, which is not what ofTransformers says", name, seen[name])
		}
	}
}

// ofTransformers are architectures that llama.cpp lacks: TestTransformers of go/convert compares small models of theirs, and that of
// go/transcribe one of whisper.
var ofTransformers = strings.Fields(`mpnet electra deberta bart mbart pegasus marian flex_olmo hyperclovax olmo_hybrid diffllama
	recurrent_gemma gpt_neo gptj nanochat opt persimmon vaultgemma zamba2 jetmoe longcat-flash whisper`)

// asWitnessed makes of a model what the other implementation computes, where the original differs
// and arch follows that.
var asWitnessed = map[string]func(c *Config){
	"phimoe": func(c *Config) {
		c.Norm, c.ExpertGating, c.ExpertNorm = kernel.RMS, kernel.GateSoftmax, true
	},
	"gpt-oss": func(c *Config) { // the ends of YaRN's ramp are truncated
		for il := range c.Layers {
			c.Layers[il].Rope.Scaling.Fractional = false
		}
	},
	"dots3note": func(c *Config) { c.Latent.Index.Rope = kernel.RopeNeox }, // its index rotates halves
	"t5encoder": func(c *Config) { c.BothWays = false },                    // no key tells it that the encoder reads both ways
}

// witnessed reads what the witness says of a model, and loads the model as the witness runs it.
func witnessed(t *testing.T, f *File, path string, w any) *Model {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, w); err != nil {
		t.Fatal(err)
	}
	cfg, err := f.Config()
	if err != nil {
		t.Fatal(err)
	}
	if change := asWitnessed[cfg.Arch]; change != nil {
		change(cfg)
	}
	m, err := loadFile(t, f, Packed, kvF32)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func against(t *testing.T, f *File, path string) {
	var w witness
	m := witnessed(t, f, path, &w)
	tanhGELU(m.program)
	source := 0
	if len(m.Config.Encoder) > 0 {
		source = len(w.IDs)
		w.IDs = append(append(w.IDs, m.Config.Start...), w.Answer...)
	}
	s := newStepper(t, m, len(w.IDs)+len(w.Greedy))
	s.source = source
	rows := s.step(t, w.IDs)
	tolerance := cmp.Or(w.Within, 1e-3)
	for _, at := range w.Top {
		row := rows[at.Pos]
		for _, want := range at.Top {
			if got := float64(row[int(want[0])]); !(math.Abs(got-want[1]) <= tolerance) {
				t.Fatalf("position %d: logit %g of token %g, want %g", at.Pos, got, want[0], want[1])
			}
		}
		mean, l2 := 0.0, 0.0
		for _, x := range row {
			mean += float64(x) / float64(len(row))
			l2 += float64(x) * float64(x)
		}
		// Logits of tokens that are never said are as far below zero as floats go: against them the others count for nothing.
		within := func(got, want, size float64) bool {
			return math.Abs(got-want) <= tolerance*max(size, 1e-3*math.Abs(want))
		}
		if l2 = math.Sqrt(l2); !within(mean, at.Mean, 1) || !within(l2, at.L2, math.Sqrt(float64(len(row)))) {
			t.Fatalf("position %d: logits of mean %g and length %g, want %g and %g", at.Pos, mean, l2, at.Mean, at.L2)
		}
	}
	row := rows[len(rows)-1]
	for i, want := range w.Greedy {
		got := int32(slices.Index(row, slices.Max(row)))
		if got != want {
			t.Fatalf("token %d after the prompt is %d, want %d", i, got, want)
		}
		row = s.step(t, []int32{got})[0]
	}
	// The same, cut into slices: the state of a sequence goes on where it was.
	cut := newStepper(t, m, len(w.IDs))
	cut.source = source
	for at, done := 0, 0; at < len(w.IDs); {
		n := min(7, len(w.IDs)-at)
		if at < source { // which is whole
			n = source + 1
		}
		for _, row := range cut.step(t, w.IDs[at:at+n]) {
			if !slices.Equal(row, rows[done]) {
				t.Fatalf("row %d of logits differs where the prompt is cut", done)
			}
			done++
		}
		at += n
	}
}

// Logits are the vectors times the output matrix.
func TestVectors(t *testing.T) {
	m, err := load(t, filepath.Join(golden, "tiny-llama-f32.gguf"), Mapped)
	if err != nil {
		t.Fatal(err)
	}
	ids := []int32{1, 20, 30, 40}
	s := newStepper(t, m, len(ids))
	logits := s.step(t, ids)
	s.r.Compute(nn.Vectors, []int32{1, 3})
	w, ok := m.GGUF().Tensor("output.weight")
	if !ok {
		t.Fatal("no output.weight")
	}
	n := m.Config.NEmbd
	row := make([]float32, n)
	for i, at := range []int{1, 3} {
		v := s.r.Row(i)
		if len(v) != n {
			t.Fatalf("vectors of %d, want %d", len(v), n)
		}
		for id, want := range logits[at] {
			if err := kernel.Dequantize(kernel.F32, row, w.Data[id*n*4:(id+1)*n*4]); err != nil {
				t.Fatal(err)
			}
			got := 0.0
			for k := range row {
				got += float64(row[k]) * float64(v[k])
			}
			if math.Abs(got-float64(want)) > 1e-5*(1+math.Abs(got)) {
				t.Fatalf("token %d: logit %g of %d, want %g", at, got, id, want)
			}
		}
	}
}

// A stepper evaluates one text.
type stepper struct {
	r     *Runner
	kv    *kvcache.Pool
	table *kvcache.Table

	source int // its first tokens, which an encoder reads

	// Adapters of the text.
	numbers []int32
	scales  []float32
}

func newStepper(t *testing.T, m *Model, positions int) *stepper {
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return newStepperOn(t, m, positions, pool, nil)
}

// newStepperOn returns a stepper on a pool of threads, with keys and values on these NUMA nodes; nil: in one place.
func newStepperOn(t *testing.T, m *Model, positions int, pool *kernel.Pool, nodes []int) *stepper {
	t.Helper()
	var err error
	s := &stepper{}
	s.r, err = NewRunner(m, RunnerConfig{
		Pool: pool, Budget: mem.NewBudget(1<<28, "test"), MaxTokens: positions, MaxSeqs: 2,
		MaxBlocks: positions/kernel.KVBlock + 1, MaxOut: positions,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.r.Close)
	s.kv, err = kvcache.NewPool(mem.NewBudget(1<<28, "test"), m.Layout, m.Layout.Most(positions, positions)+m.Layout.Copy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.kv.Close() })
	if len(nodes) > 1 {
		if err := s.kv.Place(nodes, m.KeptByHeads(len(nodes))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range m.Layout {
		s.r.Batch().SetUnits(i, kernel.Units(s.kv.Units(i)))
	}
	s.table = s.kv.NewTable()
	return s
}

// step appends tokens, and returns the logits after each that no encoder reads.
func (s *stepper) step(t *testing.T, ids []int32) [][]float32 {
	t.Helper()
	rows := s.fill(t, ids)
	s.r.Head(rows)
	var out [][]float32
	for i := range rows {
		out = append(out, slices.Clone(s.r.Logits(i)))
	}
	return out
}

// fill appends tokens, and returns the rows in the batch of those that no encoder reads.
func (s *stepper) fill(t *testing.T, ids []int32) []int32 {
	t.Helper()
	b, pos := s.r.Batch(), s.table.Len()
	if err := s.table.Grow(len(ids)); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	var rows []int32
	read := min(max(s.source-pos, 0), len(ids))
	for _, part := range [][]int32{ids[:read], ids[read:]} {
		if len(part) == 0 {
			continue
		}
		b.AddSeq(s.table.Units()...)
		b.Source(s.source)
		b.Adapt(s.numbers, s.scales)
		for _, id := range part {
			b.Add(id, int32(pos))
			pos++
		}
	}
	for i := range ids[read:] {
		rows = append(rows, int32(i))
	}
	if err := s.r.Forward(nil, nil); err != nil {
		t.Fatal(err)
	}
	s.table.Commit()
	return rows
}
