package sample

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// small is how many candidates are weighed, or sorted, one by one. More of them are weighed in blocks by
// vectors in single precision, and selected by bins.
const small = 512

// many tells whether the candidates are weighed in blocks.
func (s *Sampler) many() bool { return s.all || len(s.kept) > small }

// candidates returns how many there are, with those of all that cannot be chosen.
func (s *Sampler) candidates() int {
	if s.all {
		return len(s.logits)
	}
	return len(s.kept)
}

func (s *Sampler) candidate(i int) token {
	if !s.all {
		return s.kept[i]
	}
	t := token{ID: int32(i), Logit: s.logits[i]}
	if !(t.Logit >= s.from) {
		t.Logit = float32(math.Inf(-1))
	}
	return t
}

// count returns how many candidates there are.
func (s *Sampler) count() int {
	if s.all {
		return kernel.CountLogits(s.logits, s.peaks, s.from, s.top)
	}
	return len(s.kept)
}

// best returns the candidate that comes before the others.
func (s *Sampler) best() token {
	if !s.all {
		return first(s.kept)
	}
	for i, peak := range s.peaks {
		if peak == s.top { // somewhere among the logits of a chunk
			for id := kernel.PeakStart(i); ; id++ {
				if s.logits[id] == s.top {
					return token{ID: int32(id), Logit: s.top}
				}
			}
		}
	}
	return token{ID: -1} // never: the largest is one of them
}

// weight is that of a candidate, beside that of the logit top, the largest.
func (s *Sampler) weight(t token, top float64) float64 {
	return weight((float64(t.Logit) - top) * s.beta)
}

// sums returns the largest logit of the candidates, the sum of their weights, and that of the weights times
// their distances from the largest, which are negative.
func (s *Sampler) sums() (top, sum, moment float64) {
	top = float64(s.best().Logit)
	if s.many() {
		sum, moment = s.weigh(top, finite, top)
		return top, sum, moment
	}
	for _, t := range s.kept {
		d := (float64(t.Logit) - top) * s.beta
		w := weight(d)
		sum += w
		if w > 0 {
			moment += float64(w * d)
		}
	}
	return top, sum, moment
}

// weigh does so block by block for the candidates with logits from .. to, and leaves the masses of the blocks.
func (s *Sampler) weigh(top, from, to float64) (sum, moment float64) {
	if s.all {
		s.masses = kernel.WeighLogits(s.masses, s.logits, float32(top), scaleOf(s.beta), max(above(from), s.from), below(to))
	} else {
		s.masses = kernel.WeighTokens(s.masses, s.kept, float32(top), scaleOf(s.beta), above(from), below(to))
	}
	for _, m := range s.masses {
		sum += float64(m.Sum)
		moment += float64(m.Moment)
	}
	return sum, moment * math.Ln2
}

// scaleOf returns what a logit's distance from the largest is times to be the exponent of its weight, of 2.
func scaleOf(beta float64) float32 { return float32(min(beta*math.Log2E, math.MaxFloat32)) }

// above returns the least logit of at least x.
func above(x float64) float32 {
	f := float32(x)
	if float64(f) < x {
		f = math.Nextafter32(f, float32(math.Inf(1)))
	}
	return max(f, finite)
}

// below returns the largest logit of at most x.
func below(x float64) float32 {
	f := float32(x)
	if float64(f) > x {
		f = math.Nextafter32(f, float32(math.Inf(-1)))
	}
	return min(f, math.MaxFloat32)
}

// pick makes a list of the candidates with logits from .. to; of all, in order of id. Some logit is of that range.
func (s *Sampler) pick(from, to float64) {
	if s.all {
		s.all, s.kept = false, kernel.SelectTokens(s.kept, s.logits, s.peaks, max(above(from), s.from), below(to))
		return
	}
	n := 0
	for _, t := range s.kept {
		if v := float64(t.Logit); v >= from && v <= to {
			s.kept[n] = t
			n++
		}
	}
	s.kept = s.kept[:n]
}

// ordered is of how many candidates a list of a few more is made at once, and put in order as a whole.
const ordered = kernel.LogitsOrder * 3 / 4

// listed is how many candidates are listed. Where more are left of all, and these are the largest, it is faster to narrow the range.
const listed = 4096

// keep leaves the candidates with logits from .. to. Some logit is of that range.
func (s *Sampler) keep(from, to float64) {
	if s.all && to >= float64(s.top) {
		if least := above(from); least > s.from {
			s.from, s.last = least, math.MaxInt32
		}
		if s.count() > listed {
			return
		}
	}
	s.pick(from, to)
}

// only leaves one candidate.
func (s *Sampler) only(t token) { s.all, s.kept = false, append(s.kept[:0], t) }

// list makes a list of the candidates.
func (s *Sampler) list() {
	if s.all {
		s.pick(finite, float64(s.top))
	}
}

// cool makes a list of the candidates with the logits as the temperature left them.
func (s *Sampler) cool() {
	s.list()
	if s.beta == 1 {
		return
	}
	for i := range s.kept {
		s.kept[i].Logit = float32(float64(s.kept[i].Logit) * s.beta)
	}
	s.beta = 1
	s.pick(finite, math.MaxFloat32)
}

// front keeps the k first. Up to `small` of them are listed in order.
func (s *Sampler) front(k int) {
	switch {
	case !s.all || k >= len(s.logits):
	case k <= ordered:
		s.pick(s.bound(k), float64(s.top))
		if len(s.kept) <= kernel.LogitsOrder {
			s.kept = kernel.Order(s.kept, k)
			return
		}
	case k <= len(s.peaks)/2:
		s.pick(s.bound(k), float64(s.top))
	case s.count() > k:
		s.cut(cut{goal: float64(k), share: -1, far: s.farthest(k), measure: measure{count: true}})
	default:
		s.keep(finite, float64(s.top))
	}
	if s.all || k > len(s.kept) {
		return
	}
	s.kept = firstOf(s.kept, k)
	if k <= small {
		sortTokens(s.kept)
	}
}

// likeliest makes a list with the k first of the candidates among others, and returns these in order.
func (s *Sampler) likeliest(k int) []token {
	if s.all {
		s.pick(s.bound(k), float64(s.top))
	}
	tokens := firstOf(s.kept, k)
	sortTokens(tokens)
	return tokens
}

// bound returns a logit that k or more reach, and not many more where that is possible; or s.from, which fewer may reach.
func (s *Sampler) bound(k int) float64 {
	if k <= len(s.peaks)/2 {
		if b := kernel.Bound(s.peaks, k, s.from, s.top); b > s.from {
			return float64(b)
		}
		if s.count() <= kernel.LogitsOrder { // most are banned
			return float64(s.from)
		}
	}
	return float64(kernel.Bound(s.logits, k, s.from, s.top))
}

// farthest returns a distance from the largest within which k or more of all logits lie. At least k logits exist.
func (s *Sampler) farthest(k int) float64 {
	far := 1.0
	for s.countFrom(far) < k {
		far *= 2
	}
	return far
}

// countFrom returns how many of all logits are at most so far from the largest.
func (s *Sampler) countFrom(far float64) int {
	return kernel.CountLogits(s.logits, s.peaks, max(above(float64(s.top)-far), s.from), s.top)
}
