package sample

import (
	"cmp"
	"iter"
	"slices"
)

// A window counts the last tokens, for the penalties.
type window struct {
	last   []int32 // ring of the tokens inside, when there is a limit
	next   int     // where the ring goes on; its oldest token once it is full
	limit  int     // 0: count nothing, negative: count everything
	counts []count // one for each different token inside, in order of id
}

// A count says how often a token occurs, or how many tokens it follows.
type count struct {
	id int32
	n  int32
}

func byID(c count, id int32) int { return cmp.Compare(c.id, id) }

func (w *window) push(id int32) {
	switch {
	case w.limit == 0:
		return
	case w.limit > 0 && len(w.last) < w.limit:
		w.last = append(w.last, id)
	case w.limit > 0:
		w.add(w.last[w.next], -1)
		w.last[w.next] = id
		w.next = (w.next + 1) % w.limit
	}
	w.add(id, 1)
}

// add changes the count of id by n. A window holds few different tokens, so a
// sorted slice serves: Sample has to meet them in order of id.
func (w *window) add(id, n int32) {
	i, found := slices.BinarySearchFunc(w.counts, id, byID)
	if !found {
		w.counts = slices.Insert(w.counts, i, count{id, n})
		return
	}
	if w.counts[i].n += n; w.counts[i].n == 0 {
		w.counts = slices.Delete(w.counts, i, i+1)
	}
}

// penalized returns the logit of a token that occurs n times in the window.
// Division would make a negative logit more likely, hence the two cases.
func (p *Params) penalized(logit float32, n int32) float32 {
	if logit <= 0 {
		logit *= p.RepeatPenalty
	} else {
		logit /= p.RepeatPenalty
	}
	// The conversion keeps the product from being fused with the sum, which
	// would give other bits on other machines.
	return logit - (float32(float32(n)*p.FrequencyPenalty) + p.PresencePenalty)
}

// penalize applies the penalties to s.edits.
func (s *Sampler) penalize(logits []float32) {
	if len(s.edits) == 0 {
		for _, c := range s.window.counts {
			s.edits = append(s.edits, token{c.id, s.params.penalized(logits[c.id], c.n)})
		}
		return
	}
	for _, c := range s.window.counts {
		t := s.edited(c.id, logits)
		t.logit = s.params.penalized(t.logit, c.n)
	}
}

// runs yields the logits with s.edits, without copying them: stretches of the
// caller's slice between the edited tokens, and each of those alone. The
// key is the id of a stretch's first token; ids ascend. Loops over a stretch keep sums in variables of
// their own: those outside of the range are in memory, as it calls a function.
func (s *Sampler) runs(logits []float32) iter.Seq2[int32, []float32] {
	return func(yield func(int32, []float32) bool) {
		next := int32(0)
		for _, t := range s.edits {
			if next < t.id && !yield(next, logits[next:t.id]) {
				return
			}
			s.one[0] = t.logit
			if !yield(t.id, s.one[:]) {
				return
			}
			next = t.id + 1
		}
		if int(next) < len(logits) {
			yield(next, logits[next:])
		}
	}
}
