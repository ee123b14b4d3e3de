package eval

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/quern-llm/quern/go/internal/panics"
)

// A Comparison is how models predict the same text.
type Comparison struct {
	Base   Estimate
	Others []*Divergence   // of each other model from the base
	Time   []time.Duration // that the base and the others took to evaluate the text
	Read   int             // tokens that each of them evaluated
}

// Compare evaluates the text with the base and the others in turns, a part of a chunk at a time,
// and compares their predictions exactly. Rows has room for the logits of a part, at least one prediction of
// nVocab of each of two models. After each chunk, progress is called with what there is so far.
func Compare(ctx context.Context, base Model, others []Model, ids []int32, c Chunks, nVocab int, rows []float32, progress func(*Comparison) error) (*Comparison, error) {
	count, err := c.Count(len(ids))
	if err != nil {
		return nil, err
	}
	room := len(rows) / (2 * nVocab)
	if room == 0 {
		return nil, errors.New("no room for logits to compare")
	}
	p := &comparing{
		Comparison: &Comparison{Others: make([]*Divergence, len(others)), Time: make([]time.Duration, 1+len(others))},
		nVocab:     nVocab, base: rows[:room*nVocab], other: rows[room*nVocab : 2*room*nVocab], shift: make([]float64, room),
	}
	for i := range p.Others {
		p.Others[i] = &Divergence{}
	}
	for n := range count {
		if err := p.chunk(ctx, append([]Model{base}, others...), c.chunk(ids, n), c.First(), room); err != nil {
			return p.Comparison, fmt.Errorf("chunk %d of %d: %w", n+1, count, err)
		}
		p.Base = p.sum.estimate(n + 1)
		if err := progress(p.Comparison); err != nil {
			return p.Comparison, err
		}
	}
	return p.Comparison, nil
}

// comparing is the state of Compare.
type comparing struct {
	*Comparison
	sum         moments // of the base
	nVocab      int
	base, other []float32 // logits of a part
	shift       []float64 // of the base's
}

// chunk compares the predictions of a chunk from index first on, in parts of so many.
func (p *comparing) chunk(ctx context.Context, models []Model, chunk []int32, first, room int) error {
	texts := make([]Text, len(models))
	for i, m := range models {
		texts[i] = m()
		defer texts[i].Close()
	}
	last := len(chunk) - 1 // only a target
	p.Read += last
	for at, end := 0, first; at < last; at, end = end, min(end+room, last) {
		part := chunk[at:end]
		from := len(part) // nothing is scored before first
		if at >= first {
			from = 0
		}
		for i, text := range texts {
			logits := p.base
			if i > 0 {
				logits = p.other
			}
			start := time.Now()
			err := text.Eval(ctx, part, from, func(k int, row []float32) error {
				if len(row) != p.nVocab {
					return fmt.Errorf("a vocabulary of %d, that of the base is %d", len(row), p.nVocab)
				}
				copy(logits[k*p.nVocab:], row)
				return nil
			})
			p.Time[i] += time.Since(start)
			if err == nil && from == 0 {
				err = p.score(i, chunk[at+1:end+1])
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// score adds the predictions of a part, which the tokens next follow, for model i; the base is 0.
func (p *comparing) score(i int, next []int32) error {
	row := func(all []float32, k int) []float32 { return all[k*p.nVocab : (k+1)*p.nVocab] }
	if i == 0 {
		err := panics.Share(runtime.GOMAXPROCS(0), len(next), func(k int) (err error) {
			p.shift[k], err = logSum(row(p.base, k))
			return err
		})
		if err != nil {
			return err
		}
		for k, id := range next {
			if err := checkToken(id, p.nVocab); err != nil {
				return err
			}
			p.sum.add(p.shift[k] - float64(row(p.base, k)[id]))
		}
		return nil
	}
	results := make([]prediction, len(next))
	err := panics.Share(runtime.GOMAXPROCS(0), len(next), func(k int) (err error) {
		results[k], err = compared(row(p.base, k), p.shift[k], Exact, row(p.other, k), next[k])
		return err
	})
	if err != nil {
		return err
	}
	for _, r := range results {
		p.Others[i-1].add(r)
	}
	return nil
}
