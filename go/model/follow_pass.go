package model

import (
	"errors"
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/mem"
)

// What a rank computes in a pass. Panics of what rank 0 gets wrong are Follower.follow's.

func (f *Follower) pass(kind byte, body []byte) error {
	switch kind {
	case msgPass:
		ends, body, err := partsOf(body)
		if err == nil {
			err = f.take(body)
		}
		if err == nil {
			err = f.divide(ends)
		}
		if err != nil {
			return err
		}
		err = f.runner.Forward(nil, nil)
		switch {
		case errors.Is(err, ErrStopped):
		case err == nil && f.survey.ranks.Layers:
			return f.did()
		default:
			return err
		}
	case msgOutput:
		w := words(body)
		if len(w) < 2 || w[0] < 0 || int(w[0]) >= len(f.runner.outputs) {
			return fmt.Errorf("an output of rank 0 is cut short: %w", ErrRank)
		}
		o := f.runner.outputs[w[0]]
		if o.Given {
			return fmt.Errorf("an output of rows that rank 0 alone has: %w", ErrRank)
		}
		f.runner.pick(o.Name, false)
		f.runner.run(w[1:])
	case msgKeep:
		if !f.model.Drafts() {
			return fmt.Errorf("a draft of a model that does not draft: %w", ErrRank)
		}
		next := words(body)
		if err := f.known(next); err != nil {
			return err
		}
		f.runner.KeepNext(next)
	case msgStep:
		return f.step(body)
	}
	return f.Group.Failed()
}

// partsOf takes where parts end off the beginning of a pass.
func partsOf(body []byte) (ends []int, rest []byte, err error) {
	n := -1
	if len(body) >= 4 {
		n = int(words(body[:4])[0])
	}
	if n < 0 || n > len(body)/4-1 {
		return nil, nil, fmt.Errorf("a pass of rank 0 is cut short: %w", ErrRank)
	}
	for _, end := range words(body[4 : 4+4*n]) {
		ends = append(ends, int(end))
	}
	return ends, body[4+4*n:], nil
}

// divide has the batch run in parts.
func (f *Follower) divide(ends []int) error {
	last := 0
	for _, end := range ends {
		if end <= last {
			last = -1
			break
		}
		last = end
	}
	if len(ends) > 0 && (f.model.Widest() == 0 || last != len(f.runner.batch.Tokens())) {
		return fmt.Errorf("rank 0 divides %d tokens at %d: %w", len(f.runner.batch.Tokens()), ends, ErrRank)
	}
	f.runner.Divide(ends)
	return nil
}

// take fills the batch.
func (f *Follower) take(body []byte) error {
	var rows []float32
	if f.rows != nil {
		rows = mem.Float32s(f.rows.Bytes())
	}
	return f.runner.batch.Take(body, rows, f.runner.brings)
}

// known returns an error unless the layer that drafts has embeddings of all these tokens: a head's table may have more rows than
// the model's.
func (f *Follower) known(ids []int32) error {
	n := int32(max(f.model.Config.NVocab, f.model.Config.Head.NTable))
	for _, id := range ids {
		if id < 0 || id >= n {
			return fmt.Errorf("token %d of rank 0, want 0 to %d: %w", id, n-1, ErrRank)
		}
	}
	return nil
}

// step computes a step of the layer that drafts.
func (f *Follower) step(body []byte) error {
	short := fmt.Errorf("a step of rank 0 is cut short: %w", ErrRank)
	next := func(n int) []int32 {
		if n < 0 || n > len(body)/4 {
			panic(short)
		}
		list := words(body[:4*n])
		body = body[4*n:]
		return list
	}
	k := int(next(1)[0])
	rows := next(int(next(1)[0]))
	var hidden [][]float32
	for range next(1)[0] {
		columns := next(int(next(1)[0]))
		h := make([]float32, len(columns))
		for i, x := range columns {
			h[i] = math.Float32frombits(uint32(x))
		}
		hidden = append(hidden, h)
	}
	if !f.model.Drafts() || k < 0 || k >= len(f.runner.plans.next.steps) {
		return fmt.Errorf("step %d of what drafts: %w", k, ErrRank)
	}
	if err := f.take(body); err != nil {
		return err
	}
	if err := f.known(f.runner.batch.Tokens()); err != nil {
		return err
	}
	f.runner.StepNext(k, hidden, rows)
	return f.Group.Failed()
}
