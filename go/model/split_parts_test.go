package model

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
)

// Every architecture gives the same bits where ranks have layers each and batches go through them in parts.
func TestPartsOfBatches(t *testing.T) {
	for _, path := range archFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gguf"), func(t *testing.T) {
			one, err := dividedModel(t, path, 1, Ranks{}, Packed, kvI16)
			if err != nil {
				t.Fatal(err)
			}
			if canStage(one[0].Config) != nil {
				t.Skip("its layers are not divided")
			}
			want := inParts(t, one, false)
			for _, shares := range [][]int{{1, 1}, {1, 1, 1}} {
				all, err := dividedModel(t, path, len(shares), Ranks{Layers: true, Shares: shares}, Packed, kvI16)
				if err != nil {
					t.Fatal(err)
				}
				if cannot := all[0].program.Widest == 0; cannot {
					if !slices.ContainsFunc(all, func(m *Model) bool { return layersHere(m) == layersHere(one[0]) }) {
						t.Error("its layers are divided, and its batches are not")
					}
					continue
				}
				if got := inParts(t, all, true); !slices.Equal(got, want) {
					t.Errorf("%d ranks: other bits, first at row %d", len(shares), firstOther(got, want))
				}
			}
		})
	}
}

// layersHere returns how many of a model's layers have operations here.
func layersHere(m *Model) (n int) {
	for _, ops := range m.program.Layers {
		if slices.ContainsFunc(ops, func(op kernel.Op) bool { _, share := op.(kernel.Share); return !share }) {
			n++
		}
	}
	return n
}

// inParts returns hashes of the outputs of two texts, computed together by all ranks.
func inParts(t *testing.T, all []*Model, divide bool) hashes {
	t.Helper()
	outcomes := make([]hashes, len(all))
	var texts []*twoTexts
	for _, m := range all {
		texts = append(texts, newTwoTexts(t, m))
	}
	err := panics.Each(len(all), func(r int) (err error) {
		err = panics.Catch(func() (err error) {
			outcomes[r], err = texts[r].passes(all[r], divide)
			return err
		})
		if err != nil && all[r].ranks != nil {
			all[r].ranks.Break()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return outcomes[0]
}

// A twoTexts evaluates two texts at a time.
type twoTexts struct {
	r      *Runner
	tables [2]*kvcache.Table
}

func newTwoTexts(t *testing.T, m *Model) *twoTexts {
	s := &twoTexts{r: newStepper(t, m, 64).r}
	kv, err := kvcache.NewPool(mem.NewBudget(1<<28, "test"), m.Layout, 2*(m.Layout.Most(64, 64)+m.Layout.Copy()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.Close() })
	for i := range m.Layout {
		s.r.Batch().SetUnits(i, kernel.Units(kv.Units(i)))
	}
	s.tables = [2]*kvcache.Table{kv.NewTable(), kv.NewTable()}
	return s
}

// passes returns hashes of the outputs of all tokens.
func (s *twoTexts) passes(m *Model, divide bool) (o hashes, err error) {
	output := nn.Logits
	if !m.Has(output) {
		output = nn.Vectors
	}
	type pass struct {
		n      [2]int
		within []int // where parts end, if a sequence may be cut
	}
	passes := []pass{{[2]int{5, 9}, []int{2, 3, 8, 13, 14}}, {[2]int{1, 1}, nil}, {[2]int{11, 1}, []int{1, 12}}, {[2]int{0, 20}, []int{10, 20}}}
	if m.Config.OnePass() {
		passes = passes[:1]
	}
	b := s.r.Batch()
	for _, p := range passes {
		b.Reset()
		var ends []int
		var rows []int32
		for k, n := range p.n {
			if n == 0 {
				continue
			}
			at := s.tables[k].Len()
			if err := s.tables[k].Grow(n); err != nil {
				return nil, err
			}
			b.AddSeq(s.tables[k].Units()...)
			for i := range n {
				b.Add(int32((at+i+13*k)*7919%(m.Config.NVocab-1)+1), int32(at+i))
				rows = append(rows, int32(len(rows)))
			}
			ends = append(ends, len(rows))
		}
		if p.within != nil && !m.Config.OnePass() && !m.Layout.Recurrent() {
			ends = p.within
		}
		if divide {
			s.r.Divide(ends)
		}
		if err := s.r.Forward(nil, nil); err != nil {
			return nil, err
		}
		var some []int32 // not all, and at last all
		for _, r := range rows {
			if r%3 != 1 {
				some = append(some, r)
			}
		}
		for _, of := range [][]int32{some, rows} {
			s.r.Compute(output, of)
			for i := range of {
				o.add(s.r.Row(i))
			}
		}
		for _, table := range s.tables {
			table.Commit()
		}
	}
	return o, m.ranks.Failed()
}

// A model that is not divided by layers is not computed in parts, nor is a part of a batch left out.
func TestDivideRefuses(t *testing.T) {
	for _, c := range []struct {
		ranks Ranks
		n     int
		ends  []int
	}{{Ranks{}, 1, []int{5, 14}}, {Ranks{Layers: true}, 2, []int{5, 13}}} {
		all, err := dividedModel(t, small(t), c.n, c.ranks, Packed, kvI16)
		if err != nil {
			t.Fatal(err)
		}
		s := newTwoTexts(t, all[0])
		s.r.Divide(c.ends)
		err = panics.Catch(func() error {
			_, err := s.passes(all[0], false)
			return err
		})
		var p *panics.Panic
		if !errors.As(err, &p) {
			t.Errorf("%d ranks compute parts that end at %d: %v", c.n, c.ends, err)
		}
	}
}
