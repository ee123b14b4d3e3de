package engine

import (
	"errors"
	"fmt"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model"
)

// A shifting says when a sequence loses its oldest tokens, so that its text goes on in the same context: as soon as it
// has `limit` of them, it loses `by` of those behind the first `keep`. What it keeps of the others is moved and not
// computed anew, so it has an echo of those lost. The zero value never does.
//
// When a text is shifted depends on its tokens alone. So a sequence whose memory was taken is computed again from all
// tokens of its text, with the same shifts, and has the same bits.
type shifting struct{ limit, keep, by int }

// shiftingOf returns the shifting of a text with so many tokens of prompt, as llama.cpp has it: the sequence is shifted
// when one position is left, and four or more are not kept.
func (e *Engine) shiftingOf(p *Params) (s shifting) {
	if !e.shifts || p.NoShift || p.Reader != nil {
		return s
	}
	s.limit = e.ctx - 1
	most := min(e.ctx-4, e.kv.Layout().Shiftable(s.limit))
	if s.keep = min(p.Keep, most); p.Keep < 0 {
		s.keep = min(len(p.Prompt), most)
	}
	s.by = (s.limit - s.keep) / 2
	if p.Discard > 0 && (p.Discard < s.by || !e.kv.Layout().Forgets()) {
		s.by = min(p.Discard, s.limit-s.keep)
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

// due reports whether a sequence of so many positions is to be shifted before it grows.
func (s shifting) due(positions int) bool { return s.limit > 0 && positions >= s.limit }

// room returns how many of n tokens fit before that.
func (s shifting) room(positions, n int) int {
	if s.limit == 0 {
		return n
	}
	return min(n, s.limit-positions)
}

// findable returns the tokens of a text whose state may be in the prefix tree: those before the first shift.
func (s shifting) findable(ids []int32) []int32 { return ids[:s.room(0, len(ids))] }

// beginShift has the memory for a shift of s, whose tokens the prefix tree has in a namespace, or fails as Table.Grow does.
func (s *Sequence) beginShift(how shifting, namespace string) (*kvcache.Shift, error) {
	move, err := s.table.Shift(how.keep, how.by)
	if errors.Is(err, kvcache.ErrFull) && !s.shifted { // the tree has the same blocks: without it they need not be copied
		s.e.tree.Forget(namespace, s.ids)
		move, err = s.table.Shift(how.keep, how.by)
	}
	return move, err
}

// endShift records that the keys and values of s have been moved.
func (s *Sequence) endShift(g *Generation, move *kvcache.Shift) {
	move.Done()
	s.ids = append(s.ids[:g.shift.keep], s.ids[g.shift.keep+g.shift.by:]...)
	s.shifted, s.intact = true, g.shift.keep
	g.shifted(g.shift.by)
}

// makeWay shifts s where that is due. The caller holds the device's turn.
func (s *Sequence) makeWay(g *Generation) error {
	if !g.shift.due(s.Len()) {
		return nil
	}
	move, err := s.beginShift(g.shift, s.space)
	if err != nil {
		return err
	}
	s.e.mover.Move(s.e.device.pool, s.e.kv, move, s.Len()-g.shift.by)
	s.endShift(g, move)
	return nil
}

// settle removes from s what was evaluated of rejected drafts.
func (s *Sequence) settle(g *Generation) {
	at := g.Positions()
	if s.Len() <= at {
		return
	}
	if n := s.Truncate(at); n == at || !s.shifted {
		g.done = n + g.dropped // the drafts of what follows stay
		return
	}
	s.Truncate(0) // windows have forgotten too much: from the beginning
	g.dropped = 0
	g.Resume(0)
}
