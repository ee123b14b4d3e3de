package sample

import (
	"math"
	"math/bits"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// A cut is a choice of the fewest of all candidates, the first in order, whose weights reach a goal.
type cut struct {
	goal  float64
	share float64 // the goal as a share of all weights; -1: it is given
	keep  int     // the fewest candidates
	far   float64 // no candidate that is needed for the goal is further from the largest
	measure
}

// cut makes it without a sort of all: their weights are added up by bins of logits, and only the bin in which the goal is
// reached is listed, divided again while it is long, and then sorted.
func (s *Sampler) cut(c cut) {
	scale := float32(0)
	if !c.count {
		scale = scaleOf(c.beta)
	}
	from, to, per := s.from, s.top, binsPer(c.far)
	s.bins = kernel.BinLogits(s.bins, s.logits, s.top, scale, per, from, to)
	if c.share >= 0 {
		sum := 0.0
		for _, w := range s.bins {
			sum += w
		}
		c.goal = float64(c.share * sum)
	}
	edge, sum := edgeOf(s.bins, c.goal)
	// Where a bin begins is rounded a few times.
	const rounding = 1e-6
	if edge < kernel.LogitsBins-1 {
		from = max(from, above(float64(to)-float64(edge+1)*(1+rounding)/float64(per)))
	}
	upTo := below(float64(to) - float64(edge)*(1-rounding)/float64(per))
	s.kept = members(kernel.SelectTokens(s.kept, s.logits, s.peaks, from, upTo), edge, to, per)
	for len(s.kept) > small {
		from, to = limits(s.kept)
		per = binsPer(float64(to) - float64(from))
		s.bins = kernel.BinTokens(s.bins, s.kept, s.top, scale, per, from, to)
		edge, before := edgeOf(s.bins, c.goal-sum)
		n := len(s.kept)
		if s.kept = members(s.kept, edge, to, per); len(s.kept) == n {
			break // they are the same, as good as
		}
		sum += before
	}
	sortTokens(s.kept)
	for i, t := range s.kept {
		if sum += c.weight(t); sum >= c.goal || i == len(s.kept)-1 {
			if c.keep > 1 && s.rank(t) < c.keep {
				s.front(c.keep)
			} else {
				s.end(t)
			}
			return
		}
	}
}

// rank returns how many of all candidates there are up to one of them.
func (s *Sampler) rank(t token) int {
	return kernel.CountLogits(s.logits, s.peaks, t.Logit, s.top) - len(s.beyond(t))
}

// beyond returns the candidates with the logit of one of them, and a larger id.
func (s *Sampler) beyond(t token) []token {
	s.kept = kernel.SelectTokens(s.kept, s.logits, s.peaks, t.Logit, t.Logit)
	n, _ := slices.BinarySearchFunc(s.kept, t.ID+1, func(t token, id int32) int { return int(t.ID) - int(id) })
	return s.kept[n:]
}

// binsPer returns how many bins a distance of 1 has where all of them have this one.
func binsPer(far float64) float32 { return float32(min((kernel.LogitsBins-1)/far, math.MaxFloat32)) }

// edgeOf returns the bin with which the sum of the first reaches the goal, and the sum of those before it. Where rounding leaves
// the sum of all below the goal, it is the last bin that has something.
func edgeOf(bins []float64, goal float64) (edge int, before float64) {
	sum := 0.0
	for b, w := range bins {
		if w == 0 {
			continue
		}
		edge, before = b, sum
		if sum += w; sum >= goal {
			break
		}
	}
	return edge, before
}

// members leaves of a list the tokens of a bin.
func members(tokens []token, bin int, to, per float32) []token {
	n := 0
	for _, t := range tokens {
		if kernel.Bin(t.Logit, to, per) == bin {
			tokens[n] = t
			n++
		}
	}
	return tokens[:n]
}

// limits returns the least and the largest logit of a list.
func limits(tokens []token) (least, most float32) {
	least, most = tokens[0].Logit, tokens[0].Logit
	for _, t := range tokens {
		least, most = min(least, t.Logit), max(most, t.Logit)
	}
	return least, most
}

// end leaves of all candidates those up to the last in order.
func (s *Sampler) end(last token) {
	s.from, s.last = last.Logit, last.ID
	if len(s.beyond(last)) > listed {
		s.list()
		s.kept = slices.DeleteFunc(s.kept, func(t token) bool { return before(last, t) })
		return
	}
	s.without()
	if s.count() <= listed {
		s.list()
	}
}

// without bans what is beyond the last of all candidates, until restore.
func (s *Sampler) without() {
	if s.last < math.MaxInt32 {
		for _, t := range s.beyond(token{ID: s.last, Logit: s.from}) {
			s.change(t.ID, float32(math.Inf(-1)))
		}
	}
}

// heaped is how many of a list are found by a heap, of which most tokens only pass the top. Others are found by partition.
const heaped = 64

// firstOf moves the k first in order to the front of tokens, in any order, and returns them.
func firstOf(tokens []token, k int) []token {
	switch {
	case k >= len(tokens):
		return tokens
	case k <= heaped:
		return heap(tokens, k)
	}
	lo, hi := 0, len(tokens) // the k-th is in this range, and what is before the range is before it in order
	for rounds := 2 * bits.Len(uint(hi)); rounds > 0 && hi-lo > heaped; rounds-- {
		pivot := median(tokens[lo], tokens[(lo+hi)/2], tokens[hi-1])
		i, j := lo, hi-1
		for i <= j {
			for before(tokens[i], pivot) {
				i++
			}
			for before(pivot, tokens[j]) {
				j--
			}
			if i <= j {
				tokens[i], tokens[j] = tokens[j], tokens[i]
				i++
				j--
			}
		}
		switch {
		case k <= j+1:
			hi = j + 1
		case k >= i:
			lo = i
		default:
			return tokens[:k]
		}
	}
	sortTokens(tokens[lo:hi]) // a few, or many that were arranged to be hard to divide
	return tokens[:k]
}

// median returns the one of three that is between the others in order.
func median(a, b, c token) token {
	if before(b, a) {
		a, b = b, a
	}
	switch {
	case before(c, a):
		return a
	case before(c, b):
		return c
	}
	return b
}
