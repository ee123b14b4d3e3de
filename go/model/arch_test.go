package model

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/arch"
)

// A witness is what another implementation computes for a small model.
type witness struct {
	IDs    []int32 `json:"ids"`
	Greedy []int32 `json:"greedy"`
	Top    []struct {
		Pos  int          `json:"pos"`
		Top  [][2]float64 `json:"top"`
		Mean float64      `json:"mean"`
		L2   float64      `json:"l2"`
	} `json:"logits_top"`
}

// Every architecture gives the logits and the text of another implementation, on
// small models with every kind of layer.
func TestArchitectures(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata.Path(t, "archs"), "*.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d models: %v", len(files), err)
	}
	seen := map[string]bool{}
	for _, path := range files {
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
		t.Run(name, func(t *testing.T) { against(t, f, strings.TrimSuffix(path, ".gguf")+".json") })
	}
	for _, name := range arch.Names() {
		if !seen[name] {
			t.Errorf("no model of %s", name)
		}
	}
}

func against(t *testing.T, f *File, path string) {
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var w witness
	if err := json.Unmarshal(raw, &w); err != nil {
		t.Fatal(err)
	}
	m, err := loadFile(t, f, Packed)
	if err != nil {
		t.Fatal(err)
	}
	s := newStepper(t, m, len(w.IDs)+len(w.Greedy))
	rows := s.step(w.IDs)
	const tolerance = 1e-3
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
		if l2 = math.Sqrt(l2); !(math.Abs(mean-at.Mean) <= tolerance && math.Abs(l2-at.L2) <= tolerance*math.Sqrt(float64(len(row)))) {
			t.Fatalf("position %d: logits of mean %g and length %g, want %g and %g", at.Pos, mean, l2, at.Mean, at.L2)
		}
	}
	row := rows[len(rows)-1]
	for i, want := range w.Greedy {
		got := int32(slices.Index(row, slices.Max(row)))
		if got != want {
			t.Fatalf("token %d after the prompt is %d, want %d", i, got, want)
		}
		row = s.step([]int32{got})[0]
	}
	// The other output is what the logits are made of.
	s.r.Compute(arch.Vectors, []int32{0})
	if n := len(s.r.Row(0)); n != m.Config.NEmbd {
		t.Errorf("vectors of %d, want %d", n, m.Config.NEmbd)
	}
}

// A stepper evaluates one text.
type stepper struct {
	r      *Runner
	blocks []int32
	pos    int32
}

func newStepper(t *testing.T, m *Model, positions int) *stepper {
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	n := (positions + kernel.KVBlock - 1) / kernel.KVBlock
	s := &stepper{}
	s.r, err = NewRunner(m, RunnerConfig{
		Pool: pool, Budget: mem.NewBudget(1<<28, "test"), MaxTokens: positions, MaxSeqs: 1, MaxBlocks: n, MaxOut: positions,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.r.Close)
	block := m.KVBlockBytes()
	kv, err := mem.Alloc(uint64(block*n), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.Close() })
	s.r.Batch().SetKV(kv.Bytes(), block)
	for i := range n {
		s.blocks = append(s.blocks, int32(i))
	}
	return s
}

// step appends tokens, and returns the logits after each.
func (s *stepper) step(ids []int32) [][]float32 {
	b := s.r.Batch()
	b.Reset()
	b.AddSeq(s.blocks)
	var rows []int32
	for i, id := range ids {
		b.Add(id, s.pos)
		s.pos++
		rows = append(rows, int32(i))
	}
	if err := s.r.Forward(nil); err != nil {
		panic(err)
	}
	s.r.Head(rows)
	var out [][]float32
	for i := range ids {
		out = append(out, slices.Clone(s.r.Logits(i)))
	}
	return out
}
