package sample

import (
	"github.com/quern-llm/quern/go/internal/exactmath"
)

// A history is the last tokens, for DRY, and what their repetitions are.
type history struct {
	limit   int // of tokens that count; 0: none, negative: all
	tokens  []int32
	same    []int32 // scratch: see repeats
	longest []count // of each token that would continue repetitions, once: the tokens of the longest
	place   []int32 // by id: 1 + its place in longest; 0: it is not there
	most    int     // the largest exponent; 0: any
}

func newHistory(p *Params) history {
	h := history{limit: p.DryLastN}
	if p.DryBase > 1.000001 {
		h.most = int(88.7228391 / exactmath.Log(float64(p.DryBase))) // base^most is the largest float32
	}
	return h
}

func (h *history) push(id int32) {
	if h.limit == 0 {
		return
	}
	if h.limit > 0 && len(h.tokens) >= 2*h.limit {
		h.tokens = h.tokens[:copy(h.tokens, h.tokens[len(h.tokens)-h.limit:])]
	}
	h.tokens = append(h.tokens, id)
}

// continues returns how long a repetition a token would continue, if it would one.
func (h *history) continues(id int32) (n int32, ok bool) {
	if int(id) >= len(h.place) || h.place[id] == 0 {
		return 0, false
	}
	return h.longest[h.place[id]-1].n, true
}

// add notes that a token would continue a repetition of n tokens.
func (h *history) add(id, n int32) {
	if int(id) >= len(h.place) {
		h.place = append(h.place, make([]int32, int(id)+1-len(h.place))...)
	}
	if at := h.place[id]; at > 0 {
		h.longest[at-1].n = max(h.longest[at-1].n, n)
		return
	}
	h.longest = append(h.longest, count{id, n})
	h.place[id] = int32(len(h.longest))
}

// penalty is taken off the logit of a token that would continue a repetition of n tokens.
func (h *history) penalty(p *Params, n int32) float32 {
	e := int(n) - p.DryAllowedLength
	if h.most > 0 {
		e = min(e, h.most)
	}
	power, base := float64(p.DryMultiplier), float64(p.DryBase)
	for ; e > 0; e /= 2 {
		if e&1 != 0 {
			power *= base
		}
		base *= base
	}
	return float32(power)
}

// repeats computes s.dry.longest, in a time that is linear in the tokens that count. The end of the text counts as
// repeated as far back as the last breaker, and breakers of one token are free.
func (s *Sampler) repeats() {
	h, p := &s.dry, &s.params
	for _, r := range h.longest {
		h.place[r.id] = 0
	}
	h.longest = h.longest[:0]
	last := h.tokens
	if h.limit > 0 && len(last) > h.limit {
		last = last[len(last)-h.limit:]
	}
	n := len(last)
	if n <= p.DryAllowedLength {
		return
	}
	bound := p.DryBreakers.distance(last)
	if bound < p.DryAllowedLength {
		return
	}
	// same[k] is how many tokens before and at the k-th from the end are those before and
	// at the end: the Z function of the reversed text. [from, to) is the match that
	// reaches furthest.
	h.same = append(h.same[:0], make([]int32, n)...)
	from, to := 0, 0
	for k := 1; k < n; k++ {
		z := 0
		if k < to {
			z = min(to-k, int(h.same[k-from]))
		}
		for k+z < n && last[n-1-z] == last[n-1-k-z] {
			z++
		}
		if k+z > to {
			from, to = k, k+z
		}
		h.same[k] = int32(z)
		if z = min(z, bound); z >= p.DryAllowedLength {
			if id := last[n-k]; !p.DryBreakers.single(id) {
				h.add(id, int32(z))
			}
		}
	}
}
