package sample

import (
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// The filters of this file leave some of the candidates, which are finite, and never none.

// sink moves h[i] down to its place in a heap where each comes after its
// children in order.
func sink(h []token, i int) {
	for {
		last := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if before(h[last], h[c]) {
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

// heap moves the k first in order to the front of tokens and returns them, the last of them first.
func heap(tokens []token, k int) []token {
	h := tokens[:min(k, len(tokens))]
	if len(h) == 0 {
		return h
	}
	for i := len(h)/2 - 1; i >= 0; i-- {
		sink(h, i)
	}
	for i := len(h); i < len(tokens); i++ {
		if before(tokens[i], h[0]) {
			h[0], tokens[i] = tokens[i], h[0]
			sink(h, 0)
		}
	}
	return h
}

// areInOrder reports whether no token comes before the one that it follows.
func areInOrder(tokens []token) bool {
	for i := 1; i < len(tokens); i++ {
		if before(tokens[i], tokens[i-1]) {
			return false
		}
	}
	return true
}

func sortTokens(tokens []token) { slices.SortFunc(tokens, inOrder) }

// sigma keeps what is within n standard deviations of the largest logit.
func (s *Sampler) sigma() {
	if s.all && s.from > finite { // a range of the logits is left of them
		s.list()
	}
	top := float64(s.best().Logit)
	far := float64(float64(s.params.TopNSigma) * math.Sqrt(max(s.variance(top), 0)))
	if far <= math.MaxFloat32 { // not where squares are too large
		s.keep(top-far, top)
	}
}

// variance returns that of the candidates' logits.
func (s *Sampler) variance(top float64) float64 {
	switch {
	case s.all:
		return kernel.SpreadLogits(s.logits).Variance
	case s.many():
		return kernel.SpreadTokens(s.kept).Variance
	}
	n, sum, squares := float64(len(s.kept)), 0.0, 0.0
	for _, t := range s.kept {
		d := float64(t.Logit) - top
		sum += d
		squares += float64(d * d) // converted, or some machines would fuse it with the sum
	}
	mean := sum / n
	return squares/n - float64(mean*mean)
}

// minP keeps those that are at least p times as probable as the largest.
func (s *Sampler) minP() {
	top := float64(s.best().Logit)
	s.keepAtLeast(top + s.minLog/s.beta)
}

// keepAtLeast keeps those with this logit or more, and at least as many as are always kept.
func (s *Sampler) keepAtLeast(least float64) {
	if s.params.MinKeep > 1 {
		n := 0
		if s.all {
			n = kernel.CountLogits(s.logits, s.peaks, max(above(least), s.from), s.top)
		} else {
			for _, t := range s.kept {
				if float64(t.Logit) >= least {
					n++
				}
			}
		}
		if n < s.params.MinKeep {
			s.front(s.params.MinKeep)
			return
		}
	}
	s.keep(least, math.MaxFloat32)
}

// nucleus keeps the fewest, the largest first, whose weights reach p of all.
func (s *Sampler) nucleus() {
	p := float64(s.params.TopP)
	if !s.all {
		top, sum, _ := s.sums()
		s.reach(float64(p*sum), s.params.MinKeep, &measure{middle: top, top: top, beta: s.beta, first: true})
		return
	}
	// What is further from the largest than this weighs, together, by far less than what is left over.
	far := 1 + log(float64(len(s.logits))/(1-p))
	s.cut(cut{share: p, keep: s.params.MinKeep, far: far / s.beta, measure: measure{top: float64(s.top), beta: s.beta}})
}

// typical keeps the fewest whose weights exceed p of all, ordered by how far the surprise of each is from the
// expected one, the entropy.
func (s *Sampler) typical() {
	top, sum, moment := s.sums()
	// A candidate d below the largest has the surprise ln(sum) - d, and the entropy is
	// ln(sum) - moment/sum.
	m := measure{middle: top + moment/sum/s.beta, top: top, beta: s.beta}
	goal := math.Nextafter(float64(float64(s.params.TypicalP)*sum), math.Inf(1))
	if s.all {
		s.pick(s.around(&m, goal))
	}
	s.reach(goal, s.params.MinKeep, &m)
}

// around returns bounds of logits at the same distance from the middle within which all candidates weigh more than goal,
// and are as many as are always kept.
func (s *Sampler) around(m *measure, goal float64) (from, to float64) {
	for far := 0.25; far < negligible; far *= 2 {
		from, to = m.middle-far/s.beta, min(m.middle+far/s.beta, m.top)
		if mass, _ := s.weigh(m.top, from, to); mass < goal*(1+1e-6) {
			continue
		}
		if k := s.params.MinKeep; k < 2 || kernel.CountLogits(s.logits, s.peaks, max(above(from), s.from), below(to)) >= k {
			return from, to
		}
	}
	return finite, m.top
}

// xtc removes, now and then, the candidates whose probabilities reach the threshold, all
// but the least likely of them.
func (s *Sampler) xtc() {
	if s.removes.uniform32() > s.params.XTCProbability {
		return
	}
	top, sum, _ := s.sums()
	least := float64(float64(s.params.XTCThreshold) * sum)
	if least > 1 {
		return // nothing reaches it
	}
	n, all := s.count(), s.all
	if all {
		s.pick(top+(log(least)-1e-9)/s.beta, top)
	}
	last, more := token{ID: -1}, 0
	for _, t := range s.kept {
		if s.weight(t, top) >= least {
			more++
			if last.ID < 0 || before(last, t) {
				last = t
			}
		}
	}
	s.all = all
	if more < 2 || n-(more-1) < s.params.MinKeep {
		return
	}
	s.pick(finite, float64(last.Logit))
	s.kept = slices.DeleteFunc(s.kept, func(t token) bool { return before(t, last) })
}

// temperature divides the logits of the candidates, or leaves only the likeliest.
func (s *Sampler) temperature() {
	p := &s.params
	temp := float64(p.Temp)
	if p.DynRange > 0 {
		_, sum, moment := s.sums()
		entropy := log(sum) - moment/sum
		share := max(entropy, 0) / log(float64(max(s.count(), 2))) // of one candidate it is 0
		least := max(temp-float64(p.DynRange), 0)
		temp = least + float64((temp+float64(p.DynRange)-least)*power(share, float64(p.DynExponent)))
	}
	best := s.best()
	if temp <= 0 || math.Abs(float64(best.Logit)*s.beta/temp) > math.MaxFloat32 {
		s.only(best)
		return
	}
	s.beta /= temp
}
