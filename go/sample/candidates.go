package sample

import (
	"math"
	"slices"
)

// The filters of this file shorten s.kept, the list of candidates, which is in no order
// unless a filter says so. It has two or more, all finite.

// atLeast makes the tokens with this logit or more the candidates.
func (s *Sampler) atLeast(logits []float32, least float64) {
	for first, run := range s.runs(logits) {
		kept := s.kept
		for i, v := range run {
			if float64(v) >= least {
				kept = append(kept, token{first + int32(i), v})
			}
		}
		s.kept = kept
	}
}

// spread adds up logits for their standard deviation, as distances from the largest.
type spread struct{ n, sum, squares float64 }

func (a *spread) add(d float64) {
	a.n++
	a.sum += d
	a.squares += float64(d * d) // converted, or some machines would fuse it with the sum
}

// least returns the distance that is n standard deviations.
func (a *spread) least(n float32) float64 {
	mean := a.sum / a.n
	return -float64(float64(n) * math.Sqrt(max(a.squares/a.n-float64(mean*mean), 0)))
}

// deviation returns the least logit that passes top-n-sigma among all.
func (s *Sampler) deviation(logits []float32, top float64) float64 {
	var a spread
	for _, run := range s.runs(logits) {
		n, sum, squares := a.n, a.sum, a.squares
		for _, v := range run {
			if float64(v) >= finite { // not NaN
				d := float64(v) - top
				n, sum, squares = n+1, sum+d, squares+float64(d*d)
			}
		}
		a = spread{n, sum, squares}
	}
	return top + a.least(s.params.TopNSigma)
}

func (s *Sampler) sigmaKept() {
	top := float64(first(s.kept).logit)
	var a spread
	for _, t := range s.kept {
		a.add(float64(t.logit) - top)
	}
	s.keepAbove(top + a.least(s.params.TopNSigma))
}

func (s *Sampler) keepAbove(least float64) {
	s.kept = slices.DeleteFunc(s.kept, func(t token) bool { return float64(t.logit) < least })
}

// front keeps the k first in order.
func (s *Sampler) front(k int) {
	switch {
	case k >= len(s.kept):
		return
	case k > nBins/4: // a heap of so many would be slow
		top := float64(first(s.kept).logit)
		s.reach(float64(k), 1, func(t token) float64 { return top - float64(t.logit) }, func(token) float64 { return 1 })
		return
	}
	s.kept = heap(s.kept, k)
}

// heap moves the k first in order to the front of tokens, and returns them as topK does.
func heap(tokens []token, k int) []token {
	h := tokens[:min(k, len(tokens))]
	if len(h) == 0 {
		return h
	}
	for i := len(h)/2 - 1; i >= 0; i-- {
		sink(h, i)
	}
	for i := len(h); i < len(tokens); i++ {
		if tokens[i].before(h[0]) {
			h[0], tokens[i] = tokens[i], h[0]
			sink(h, 0)
		}
	}
	return h
}

func (s *Sampler) minPKept() {
	least := s.leastLogit(first(s.kept).logit)
	n := 0
	for _, t := range s.kept {
		if float64(t.logit) >= least {
			n++
		}
	}
	if n < s.params.MinKeep {
		s.front(s.params.MinKeep)
		return
	}
	s.keepAbove(least)
}

// sums returns the largest logit of the candidates, the sum of their weights, and that
// of the weights times the distances from the largest.
func (s *Sampler) sums() (top, sum, moment float64) {
	top = float64(first(s.kept).logit)
	for _, t := range s.kept {
		d := float64(t.logit) - top
		w := weight(d)
		sum += w
		if w > 0 {
			moment += float64(w * d)
		}
	}
	return top, sum, moment
}

func (s *Sampler) nucleus() {
	top, sum, _ := s.sums()
	s.reach(float64(float64(s.params.TopP)*sum), s.params.MinKeep,
		func(t token) float64 { return top - float64(t.logit) },
		func(t token) float64 { return weight(float64(t.logit) - top) })
}

// typical orders the candidates by how far the surprise of each is from the expected one,
// the entropy.
func (s *Sampler) typical() {
	top, sum, moment := s.sums()
	// A candidate d below the largest has the surprise ln(sum) - d, and the entropy is
	// ln(sum) - moment/sum.
	mean := moment / sum
	goal := float64(float64(s.params.TypicalP) * sum)
	s.reach(math.Nextafter(goal, math.Inf(1)), s.params.MinKeep,
		func(t token) float64 { return math.Abs(float64(t.logit) - top - mean) },
		func(t token) float64 { return weight(float64(t.logit) - top) })
}

// small is how many candidates are sorted rather than put into bins.
const small = 512

// reach keeps the fewest candidates, those with the smallest keys first, whose weights
// reach goal, and at least minKeep. A large list is not sorted: weights are added up by
// bins of keys, as far as it takes, and only the bin in which the goal is reached is sorted.
func (s *Sampler) reach(goal float64, minKeep int, key, weight func(token) float64) {
	byKey := func(t, u token) int {
		switch a, b := key(t), key(u); {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return inOrder(t, u)
	}
	sure, sum := 0, 0.0
	if len(s.kept) > small {
		if s.bins == nil {
			s.bins = make([]float64, nBins+1)
		}
		if s.members == nil {
			s.members = make([]int32, nBins+1)
		}
		clear(s.bins)
		clear(s.members)
		for _, t := range s.kept {
			s.members[bin(key(t))]++
		}
		// Weights are of the first bins only, of all if those don't reach the goal.
		edge, before, weighed := 0, 0, 0
		for edge < nBins {
			if edge == weighed {
				from := weighed
				for n := 0; weighed < nBins && (n < small || from > 0); weighed++ {
					n += int(s.members[weighed])
				}
				for _, t := range s.kept {
					if b := bin(key(t)); b >= from && b < weighed {
						s.bins[b] += weight(t)
					}
				}
			}
			if sum+s.bins[edge] >= goal && before+int(s.members[edge]) >= minKeep {
				break
			}
			sum += s.bins[edge]
			before += int(s.members[edge])
			edge++
		}
		end := 0
		for i, t := range s.kept {
			b := bin(key(t))
			if b > edge {
				continue
			}
			s.kept[i], s.kept[end] = s.kept[end], t
			if b < edge {
				s.kept[end], s.kept[sure] = s.kept[sure], s.kept[end]
				sure++
			}
			end++
		}
		s.kept = s.kept[:end]
	}
	slices.SortFunc(s.kept[sure:], byKey)
	for i := sure; i < len(s.kept); i++ {
		if sum += weight(s.kept[i]); sum >= goal && i+1 >= minKeep {
			s.kept = s.kept[:i+1]
			return
		}
	}
}

// xtc removes, now and then, the candidates whose probabilities reach the threshold, all
// but the least likely of them.
func (s *Sampler) xtc() {
	chance := s.uniform()
	if chance > float64(s.params.XTCProbability) {
		return
	}
	top, sum, _ := s.sums()
	least := float64(float64(s.params.XTCThreshold) * sum)
	last, above := token{-1, 0}, 0
	for _, t := range s.kept {
		if weight(float64(t.logit)-top) >= least {
			above++
			if last.id < 0 || last.before(t) {
				last = t
			}
		}
	}
	if above < 2 || len(s.kept)-(above-1) < s.params.MinKeep {
		return
	}
	s.kept = slices.DeleteFunc(s.kept, func(t token) bool { return t.before(last) })
}

// temperature divides the logits of the candidates, or leaves only the likeliest.
func (s *Sampler) temperature() {
	p := &s.params
	temp := float64(p.Temp)
	if p.DynRange > 0 {
		_, sum, moment := s.sums()
		entropy := log(sum) - moment/sum
		share := max(entropy, 0) / log(float64(len(s.kept)))
		least := max(temp-float64(p.DynRange), 0)
		temp = least + float64((temp+float64(p.DynRange)-least)*power(share, float64(p.DynExponent)))
	}
	top := first(s.kept)
	if temp <= 0 || math.Abs(float64(top.logit)/temp) > math.MaxFloat32 {
		s.kept = append(s.kept[:0], top)
		return
	}
	for i := range s.kept {
		s.kept[i].logit = float32(float64(s.kept[i].logit) / temp)
	}
	if slices.ContainsFunc(s.kept, func(t token) bool { return float64(t.logit) < finite }) {
		s.keepAbove(finite)
	}
}
