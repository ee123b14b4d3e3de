package model

import (
	"math"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
)

// An encoderWitness is the vectors that another implementation computes for the tokens of a text.
type encoderWitness struct {
	IDs    []int32 `json:"ids"`
	Tokens []struct {
		Pos       int       `json:"pos"`
		Embedding []float32 `json:"embedding"`
	} `json:"token_embeddings"`
}

// againstVectors compares the vectors of tokens with those of another implementation, which has GELU
// with tanh where the originals have erf.
func againstVectors(t *testing.T, f *File, path string) {
	var w encoderWitness
	m := witnessed(t, f, path, &w)
	if len(w.Tokens) == 0 {
		t.Fatal("no vectors to compare with")
	}
	tanhGELU(m.program)
	got := vectorsOf(t, m, w.IDs)
	done := finished(t, m, w.IDs, got)
	for _, want := range w.Tokens {
		rms := 0.0
		for _, x := range want.Embedding {
			rms += float64(x) * float64(x) / float64(len(want.Embedding))
		}
		worst := 0.0
		for i, x := range want.Embedding {
			worst = max(worst, math.Abs(float64(done[want.Pos][i]-x)))
		}
		t.Logf("position %d: %g of rms %g", want.Pos, worst, math.Sqrt(rms))
		if !(worst <= 1e-3*math.Sqrt(rms)) {
			t.Errorf("position %d: vector off by %g of rms %g", want.Pos, worst, math.Sqrt(rms))
		}
	}
	// Behind another text, the same.
	s := newStepper(t, m, 2*len(w.IDs))
	b := s.r.Batch()
	b.Reset()
	rows := []int32{}
	for n, ids := range [][]int32{w.IDs[:5], w.IDs} {
		table := s.kv.NewTable()
		if err := table.Grow(len(ids)); err != nil {
			t.Fatal(err)
		}
		b.AddSeq(table.Units()...)
		for pos, id := range ids {
			if n == 1 {
				rows = append(rows, int32(len(b.Tokens())))
			}
			b.Add(id, int32(pos))
		}
	}
	if err := s.r.Forward(nil, nil); err != nil {
		t.Fatal(err)
	}
	s.r.Compute(nn.Vectors, rows)
	for i := range rows {
		if !slices.Equal(s.r.Row(i), got[i]) {
			t.Fatalf("the vector of token %d is another in company", i)
		}
	}
}

// vectorsOf returns the vectors of all tokens of a text.
func vectorsOf(t *testing.T, m *Model, ids []int32) [][]float32 {
	s := newStepper(t, m, len(ids))
	s.fill(t, ids)
	rows := make([]int32, len(ids))
	for i := range rows {
		rows[i] = int32(i)
	}
	s.r.Compute(nn.Vectors, rows)
	var all [][]float32
	for i := range rows {
		all = append(all, slices.Clone(s.r.Row(i)))
	}
	return all
}

// finished returns the vectors as the witness has them: with the products that follow the pooling.
func finished(t *testing.T, m *Model, ids []int32, vectors [][]float32) [][]float32 {
	if !m.Has(nn.Pooled) {
		return vectors
	}
	s := newStepper(t, m, len(ids))
	s.fill(t, ids)
	var of []int32
	for i := range vectors {
		of = append(of, int32(i))
	}
	s.r.Apply(nn.Pooled, vectors, of)
	var all [][]float32
	for i := range vectors {
		all = append(all, slices.Clone(s.r.Row(i)))
	}
	return all
}

// tanhGELU has every GELU of a program computed as the witness does.
func tanhGELU(p *nn.Program) {
	for _, ops := range p.Layers {
		for i, op := range ops {
			if m, ok := op.(kernel.Matmul); ok && m.Fn == kernel.GELUErf {
				m.Fn = kernel.GELU
				ops[i] = m
			}
		}
	}
}
