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
	if s.all {
		return token{ID: int32(i), Logit: s.logits[i]}
	}
	return s.kept[i]
}

// count returns how many candidates there are.
func (s *Sampler) count() int {
	if s.all {
		return kernel.CountLogits(s.logits, s.peaks, finite, s.top)
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
	scale := float32(min(s.beta*math.Log2E, math.MaxFloat32))
	if s.all {
		s.masses = kernel.WeighLogits(s.masses, s.logits, float32(top), scale, above(from), below(to))
	} else {
		s.masses = kernel.WeighTokens(s.masses, s.kept, float32(top), scale, above(from), below(to))
	}
	for _, m := range s.masses {
		sum += float64(m.Sum)
		moment += float64(m.Moment)
	}
	return sum, moment * math.Ln2
}

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

// keep leaves the candidates with logits from .. to; of all, in order of id. Some logit is of that range.
func (s *Sampler) keep(from, to float64) {
	if s.all {
		s.all, s.kept = false, kernel.SelectTokens(s.kept, s.logits, s.peaks, above(from), below(to))
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

// only leaves one candidate.
func (s *Sampler) only(t token) { s.all, s.kept = false, append(s.kept[:0], t) }

// list makes a list of the candidates.
func (s *Sampler) list() {
	if s.all {
		s.keep(finite, float64(s.top))
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
	s.keep(finite, math.MaxFloat32)
}

// front keeps the k first in order. Up to `small` of them are sorted.
func (s *Sampler) front(k int) {
	if s.all && k < len(s.logits) {
		s.keep(s.bound(k), float64(s.top))
	}
	switch {
	case s.all || k > len(s.kept):
		return
	case k > nBins/4: // a heap of so many would be slow
		if k == len(s.kept) {
			return
		}
		top := float64(first(s.kept).Logit)
		s.reach(float64(k), 1, &measure{middle: top, top: top, beta: 1, count: true})
		return
	}
	s.kept = heap(s.kept, k)
	if k <= small {
		sortTokens(s.kept)
	}
}

// bound returns a logit that k or more reach, and not many more where that is possible. finite: all of them are k at most.
func (s *Sampler) bound(k int) float64 {
	s.kept = s.kept[:0]
	for i, peak := range s.peaks {
		if peak >= finite {
			s.kept = append(s.kept, token{ID: int32(i), Logit: peak})
		}
	}
	if k <= len(s.kept) {
		return float64(heap(s.kept, k)[0].Logit)
	}
	if s.count() <= k {
		return finite
	}
	// The distance from the largest is doubled, then halved.
	far, near := 1.0, 0.0
	for s.countFrom(far) < k {
		near, far = far, 2*far
	}
	for range 8 {
		if mid := (near + far) / 2; s.countFrom(mid) < k {
			near = mid
		} else {
			far = mid
		}
	}
	return float64(s.top) - far
}

// countFrom returns how many of all logits are at most so far from the largest.
func (s *Sampler) countFrom(far float64) int {
	return kernel.CountLogits(s.logits, s.peaks, above(float64(s.top)-far), s.top)
}
