package engine

import (
	"errors"
	"fmt"

	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model"
)

// shiftOf returns the shift of a text with so many prompt tokens, as in llama.cpp: the sequence is
// shifted when one position is left, and at least four tokens are not kept. Media stay. Where tokens rotate by places, a text
// with media is not shifted, since these are not one after the other.
func (e *Engine) shiftOf(p *generate.Params, media []placed) (s generate.Shift) {
	if !e.shifts || p.NoShift {
		return s
	}
	s.Limit = e.ctx - 1
	most := min(e.ctx-4, e.kv.Layout().Shiftable(s.Limit))
	if s.Keep = min(p.Keep, most); p.Keep < 0 {
		s.Keep = min(len(p.Prompt), most)
	}
	if n := len(media); n > 0 {
		end := media[n-1].At + media[n-1].Tokens
		if e.model.Config.ByPlaces() || end > most {
			return generate.Shift{}
		}
		s.Keep = max(s.Keep, end)
	}
	s.By = (s.Limit - s.Keep) / 2
	if p.Discard > 0 && (p.Discard < s.By || !e.kv.Layout().Forgets()) {
		s.By = min(p.Discard, s.Limit-s.Keep)
	}
	return s
}

// leastShift is the smallest context that can be shifted.
const leastShift = 8

// shiftable returns nil if contexts of that many tokens of the model can be shifted.
func shiftable(s *model.Survey, ctx int) error {
	if ctx < leastShift {
		return fmt.Errorf("%w: %d tokens are too few, want at least %d", model.ErrShift, ctx, leastShift)
	}
	return s.Shiftable(ctx - 1)
}

// beginShift allocates the memory for a shift of s, whose tokens the prefix tree has in a namespace. It fails
// as Table.Grow does.
func (s *Sequence) beginShift(how generate.Shift, namespace string) (*kvcache.Shift, error) {
	move, err := s.table.Shift(how.Keep, how.By)
	if errors.Is(err, kvcache.ErrFull) && !s.shifted { // the tree has the same blocks: without it they need not be copied
		s.e.tree.Forget(namespace, s.ids)
		move, err = s.table.Shift(how.Keep, how.By)
	}
	return move, err
}

// move moves keys and values, on all ranks, in the device's turn.
func (e *Engine) move(s *kvcache.Shift, end int) {
	e.lead.Moved(s, end)
	e.mover.Move(e.device.pool, e.kv, s, end)
}

// endShift records that the keys and values of s have been moved.
func (s *Sequence) endShift(g *generate.Generation, move *kvcache.Shift) {
	move.Done()
	s.ids = append(s.ids[:g.Shift.Keep], s.ids[g.Shift.Keep+g.Shift.By:]...)
	s.shifted, s.intact = true, g.Shift.Keep
	g.Shifted()
}

// settle removes the evaluated positions of rejected drafts from s.
func (s *Sequence) settle(g *generate.Generation) {
	at := g.Positions()
	if s.Len() <= at {
		return
	}
	if n := s.Truncate(at); n == at || !s.shifted {
		g.Settle(n)
		return
	}
	s.Truncate(0) // windows have forgotten too much: from the beginning
	g.Rewind()
}
