package sample

import (
	"cmp"
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
// sorted slice serves.
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

// An edit is a logit that was changed, and what it was.
type edit struct {
	id  int32
	was float32
}

// edit applies the penalties and DRY that come before anything else to the logits, which restore undoes.
func (s *Sampler) edit(logits []float32) {
	s.logits, s.edits = logits, s.edits[:0]
	for _, letter := range s.chain.edits {
		if letter == 'e' {
			for _, c := range s.window.counts {
				s.change(c.id, s.params.penalized(logits[c.id], c.n))
			}
			continue
		}
		s.repeats()
		for _, r := range s.dry.longest {
			s.change(r.id, logits[r.id]-s.dry.penalty(&s.params, r.n))
		}
	}
}

// again is edit for logits of which a token was chosen: what is left of them is as it was.
func (s *Sampler) again(logits []float32) {
	s.edit(logits)
	if s.all {
		s.without()
	}
}

func (s *Sampler) change(id int32, to float32) {
	s.edits = append(s.edits, edit{id, s.logits[id]})
	s.logits[id] = to
}

// restore makes the logits again what they were before edit, and forgets them.
func (s *Sampler) restore() {
	for _, e := range slices.Backward(s.edits) {
		s.logits[e.id] = e.was
	}
	s.logits = nil
}
