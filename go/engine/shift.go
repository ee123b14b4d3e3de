package engine

import (
	"errors"
	"fmt"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model"
)

// A shifting is the context shift of a sequence: when it has `limit` tokens, it discards `by` tokens after
// the first `keep`. The keys and values of the rest are moved, not recomputed, so they still depend on the
// discarded tokens. The zero value never shifts.
//
// When a text is shifted depends only on its tokens. So a sequence whose memory was reclaimed is recomputed
// from all tokens of its text, with the same shifts, and has the same bits.
type shifting struct{ limit, keep, by int }

// shiftingOf returns the shifting of a text with so many prompt tokens, as in llama.cpp: the sequence is
// shifted when one position is left, and at least four tokens are not kept.
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

// due reports whether a sequence of so many positions must be shifted before it grows.
func (s shifting) due(positions int) bool { return s.limit > 0 && positions >= s.limit }

// room returns how many of n tokens fit before the next shift.
func (s shifting) room(positions, n int) int {
	if s.limit == 0 {
		return n
	}
	return min(n, s.limit-positions)
}

// findable returns the tokens whose state may be in the prefix tree: those before the first shift.
func (s shifting) findable(ids []int32) []int32 { return ids[:s.room(0, len(ids))] }

// beginShift allocates the memory for a shift of s, whose tokens the prefix tree has in a namespace. It fails
// as Table.Grow does.
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

// settle removes the evaluated positions of rejected drafts from s.
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
