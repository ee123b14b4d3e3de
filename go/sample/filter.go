package sample

import (
	"math"
	"slices"
)

// filters tells whether top-k, top-p or min-p can take anything off n tokens.
func (p *Params) filters(n int) bool {
	return p.limitsK(n) || p.TopP < 1 || p.MinP > 0
}

func (p *Params) limitsK(n int) bool { return p.TopK > 0 && p.TopK < n }

// filter leaves in s.kept the tokens that pass top-k, top-p and min-p, in this
// order; none when no token can be chosen.
func (s *Sampler) filter(logits []float32) {
	p := &s.params
	s.kept = s.kept[:0]
	if p.limitsK(len(logits)) {
		s.topK(logits)
		if len(s.kept) == 0 {
			return
		}
		if p.TopP < 1 {
			s.topPKept()
		}
	} else {
		top := s.greedy(logits)
		if top.id < 0 {
			return
		}
		if p.TopP >= 1 { // or nothing would filter
			s.minP(logits, top.logit)
			return
		}
		if top.logit > math.MaxFloat32 {
			s.kept = append(s.kept, top) // certain; its distance from itself is NaN
			return
		}
		s.topP(logits, float64(top.logit))
	}
	if p.MinP > 0 {
		least := s.leastLogit(first(s.kept).logit)
		s.kept = slices.DeleteFunc(s.kept, func(t token) bool { return float64(t.logit) < least })
	}
}

// topK keeps the k largest, of equal ones those with the lowest ids, in no
// order. They are a heap with the last of them on top: nearly all of a
// vocabulary is turned away by one comparison with it.
func (s *Sampler) topK(logits []float32) {
	k := s.params.TopK
	least := float32(math.Inf(-1))
	for first, run := range s.runs(logits) {
		for i, v := range run {
			if !(v > least) { // NaN and -Inf too; an equal one that comes later loses
				continue
			}
			t := token{first + int32(i), v}
			if len(s.kept) < k {
				s.kept = append(s.kept, t)
				if len(s.kept) < k {
					continue
				}
				for j := k/2 - 1; j >= 0; j-- {
					sink(s.kept, j)
				}
			} else {
				s.kept[0] = t
				sink(s.kept, 0)
			}
			least = s.kept[0].logit
		}
	}
}

// sink moves h[i] down to its place in a heap where each comes after its
// children in order.
func sink(h []token, i int) {
	for {
		last := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if h[last].before(h[c]) {
				last = c
			}
		}
		if last == i {
			return
		}
		h[i], h[last] = h[last], h[i]
		i = last
	}
}

// topPKept sorts the kept tokens and cuts them where they reach p.
func (s *Sampler) topPKept() {
	slices.SortFunc(s.kept, inOrder)
	top, sum := float64(s.kept[0].logit), 0.0
	for _, t := range s.kept {
		sum += weight(float64(t.logit) - top)
	}
	s.cut(0, 0, float64(s.params.TopP)*sum, top)
}

// cut drops the kept tokens after the one, from the i-th on, at which the sum
// reaches goal.
func (s *Sampler) cut(i int, sum, goal, top float64) {
	for ; i < len(s.kept); i++ {
		if sum += weight(float64(s.kept[i].logit) - top); sum >= goal {
			s.kept = s.kept[:i+1]
			return
		}
	}
}

// nBins is how many bins topP sorts logits into, by their distance from the
// largest: each is 0.015 wide, and so holds few of a vocabulary's tokens.
const nBins = 4096

// bin returns the bin of a logit that is d below the largest. Bin nBins is for
// what has no weight.
func bin(d float64) int {
	if d < negligible {
		return int(d * (nBins / float64(negligible)))
	}
	return nBins // NaN too
}

// topP keeps the tokens that reach p without sorting them all: it adds up the
// weights by bin, finds the bin in which p is reached, and sorts that one.
func (s *Sampler) topP(logits []float32, top float64) {
	if s.bins == nil {
		s.bins = make([]float64, nBins+1)
	}
	clear(s.bins)
	bins := s.bins
	for _, run := range s.runs(logits) {
		for _, v := range run {
			d := top - float64(v)
			bins[bin(d)] += weight(-d)
		}
	}
	goal := 0.0
	for _, w := range bins[:nBins] {
		goal += w
	}
	goal *= float64(s.params.TopP)
	sum, edge := 0.0, 0
	for edge < nBins-1 && sum+bins[edge] < goal {
		sum += bins[edge]
		edge++
	}

	sure := 0 // how many tokens, at the front of kept, lie in bins before the edge
	for first, run := range s.runs(logits) {
		kept, n := s.kept, sure
		for i, v := range run {
			if b := bin(top - float64(v)); b <= edge {
				kept = append(kept, token{first + int32(i), v})
				if b < edge {
					last := len(kept) - 1
					kept[n], kept[last] = kept[last], kept[n]
					n++
				}
			}
		}
		s.kept, sure = kept, n
	}
	slices.SortFunc(s.kept[sure:], inOrder)
	s.cut(sure, sum, goal, top)
}

// minP keeps the tokens of all that pass min-p, in order of id.
func (s *Sampler) minP(logits []float32, top float32) {
	s.atLeast(logits, s.leastLogit(top))
}

// leastLogit returns the least logit that passes min-p. The largest always does.
func (s *Sampler) leastLogit(top float32) float64 { return float64(top) + s.minLog }
