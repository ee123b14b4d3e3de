package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
)

// A pooling makes the outcome of a text of the vectors of its tokens, as an engine's Embedding does, bit for bit: their weighted
// sum, divided by a number, or what an Output makes of that.
type pooling struct {
	kind  nn.Pooling
	after string // the Output; empty: none
	plans backPlans

	vectors [][]float64 // that were pooled, of the batch, where there is one
}

// newPooling returns the pooling of that kind for the model, or an error that says why there is none.
func newPooling(m *Model, kind nn.Pooling) (*pooling, error) {
	p := &pooling{kind: kind}
	c := m.Config
	switch {
	case kind == nn.PoolRank && !m.Has(nn.Scores):
		return nil, fmt.Errorf("%s cannot be trained to score texts: its file has no classifier of texts", c.Arch)
	case kind == nn.PoolRank:
		p.kind, p.after = c.Classifier.Pooling, nn.Scores
	case m.Has(nn.Pooled):
		p.after = nn.Pooled
	}
	switch p.kind {
	case nn.PoolCLS, nn.PoolLast, nn.PoolMean, nn.PoolMeanSqrt, nn.PoolWeighted:
		return p, nil
	}
	return nil, fmt.Errorf("vectors of %s cannot be trained: gradients through its pooling are not known; known are cls, last and means", c.Arch)
}

// reads returns the tokens that are pooled, of n.
func (p *pooling) reads(n int) (from, to int) {
	switch p.kind {
	case nn.PoolCLS:
		return 0, 1
	case nn.PoolLast:
		return n - 1, n
	}
	return 0, n
}

// weight returns how often token i counts, and by what the sum is divided, of n tokens.
func (p *pooling) weight(i, n int) (times, by float64) {
	switch p.kind {
	case nn.PoolMean:
		return 1, float64(n)
	case nn.PoolMeanSqrt:
		return 1, math.Sqrt(float64(n))
	case nn.PoolWeighted:
		return float64(i + 1), float64(n) * float64(n+1) / 2
	}
	return 1, 1
}

// Width returns how many numbers an outcome of the Trainer's has; 0: it is a loss.
func (t *Trainer) Width() int {
	switch {
	case t.pooling == nil:
		return 0
	case t.pooling.after != "":
		return t.program.given.out.width
	}
	return t.program.rows.width
}

// pooled returns the outcome of each text, after forward.
func (t *Trainer) pooled(stop *kernel.Stop) ([][]float64, error) {
	x, p := t.program.rows, t.pooling
	sums := make([][]float64, len(t.texts))
	for i := range sums {
		sums[i] = make([]float64, x.width)
	}
	err := t.eachRow(stop, nil, func(text, row int, times float64) {
		for j, v := range t.bufs.Row(x.x, row)[:x.width] {
			sums[text][j] += float64(times * float64(v))
		}
	})
	if err != nil {
		return nil, err
	}
	for i, sum := range sums {
		_, by := p.weight(0, len(t.texts[i].Tokens))
		for j := range sum {
			sum[j] = float64(float32(sum[j] / by))
		}
	}
	if p.after == "" {
		return sums, allFinite(sums)
	}
	p.vectors = sums
	made := t.give(nil)
	return made, allFinite(made)
}

// unpool adds gradients of the outcomes to those of the residual, after pooled.
func (t *Trainer) unpool(gradients [][]float64, stop *kernel.Stop) error {
	if t.pooling.after != "" {
		gradients = t.give(gradients)
	}
	if t.program.frozen {
		return nil
	}
	return t.eachRow(stop, t.output.back, func(text, row int, times float64) {
		_, by := t.pooling.weight(0, len(t.texts[text].Tokens))
		d := t.bufs.Row(t.program.rows.d, row)
		for j, g := range gradients[text] {
			d[j] = float32(float64(g*times) / by)
		}
		clear(d[len(gradients[text]):])
	})
}

// eachRow makes the vectors that are pooled, some at a time, calls do with each, and runs then over these.
func (t *Trainer) eachRow(stop *kernel.Stop, then parts, do func(text, row int, times float64)) error {
	of, last, at := t.of, -1, 0 // at: the number of a token in its text, of those that are pooled
	for some := range slices.Chunk(t.rows, t.maxOut) {
		if err := t.pause(stop); err != nil {
			return err
		}
		t.batch.SetOut(some)
		t.run(t.output.again)
		for i, text := range of[:len(some)] {
			if text != last {
				last, at = text, 0
			}
			times, _ := t.pooling.weight(at, 1)
			do(text, i, times)
			at++
		}
		t.run(then)
		of = of[len(some):]
	}
	return nil
}

// give returns what the Output after the pooling makes of the pooled vectors or, given gradients of that, those of the vectors.
func (t *Trainer) give(gradients [][]float64) (all [][]float64) {
	g, vectors, rows := t.program.given, t.pooling.vectors, make([]int32, t.maxOut)
	for i := range rows {
		rows[i] = int32(i)
	}
	put := func(buf kernel.Buf, i int, x []float64) {
		row := t.bufs.Row(buf, i)
		for j, v := range x {
			row[j] = float32(v)
		}
		clear(row[len(x):])
	}
	for at := 0; at < len(vectors); at += t.maxOut {
		n := min(t.maxOut, len(vectors)-at)
		t.batch.SetOut(rows[:n])
		for i, v := range vectors[at : at+n] {
			put(g.in.x, i, v)
		}
		t.run(t.pooling.plans.again)
		from := g.out
		if gradients != nil {
			for i, v := range gradients[at : at+n] {
				put(g.out.d, i, v)
			}
			t.run(t.pooling.plans.back)
			from = outRows{x: g.in.d, width: t.program.rows.width}
		}
		for i := range n {
			made := make([]float64, from.width)
			for j, v := range t.bufs.Row(from.x, i)[:from.width] {
				made[j] = float64(v)
			}
			all = append(all, made)
		}
	}
	return all
}
