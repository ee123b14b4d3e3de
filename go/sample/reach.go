package sample

import (
	"math"
	"slices"
)

// nBins is how many bins reach sorts candidates into, by their keys: each is 0.015 wide, and so holds few of a
// vocabulary's tokens.
const nBins = 4096

// bin returns the bin of a key. Bin nBins is for the keys of what has no weight.
func bin(d float64) int {
	if d < negligible {
		return int(d * (nBins / float64(negligible)))
	}
	return nBins // NaN too
}

// A measure orders candidates by the distance of their logits from a middle, and weighs them beside top.
type measure struct {
	middle, top, beta float64
	count             bool // each weighs 1
	first             bool // the middle is the largest logit: the nearest are the first
}

func (m *measure) key(t token) float64 { return math.Abs((float64(t.Logit) - m.middle) * m.beta) }

func (m *measure) weight(t token) float64 {
	if m.count {
		return 1
	}
	return weight((float64(t.Logit) - m.top) * m.beta)
}

// reach keeps the fewest candidates of the list, the nearest first, whose weights
// reach goal, and at least minKeep. A large list is not sorted: weights are added up by
// bins of keys, and only the bin in which the goal is reached is sorted.
func (s *Sampler) reach(goal float64, minKeep int, m *measure) {
	byKey := func(t, u token) int {
		switch a, b := m.key(t), m.key(u); {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return inOrder(t, u)
	}
	sure, sum := 0, 0.0
	if len(s.kept) > small {
		sure, sum = s.split(goal, minKeep, *m)
	}
	if rest := s.kept[sure:]; !m.first || !areInOrder(rest) {
		slices.SortFunc(rest, byKey)
	}
	for i := sure; i < len(s.kept); i++ {
		if sum += m.weight(s.kept[i]); sum >= goal && i+1 >= minKeep {
			s.kept = s.kept[:i+1]
			return
		}
	}
}

// split leaves the candidates of the bins up to that in which the goal is reached, those of the bins before it first,
// and returns how many these are, and their weight.
func (s *Sampler) split(goal float64, minKeep int, m measure) (sure int, sum float64) {
	s.bins = slices.Grow(s.bins[:0], nBins+1)[:nBins+1]
	if s.members == nil {
		s.members = make([]int32, nBins+1)
	}
	clear(s.bins)
	clear(s.members)
	for _, t := range s.kept {
		b := bin(m.key(t))
		s.members[b]++
		s.bins[b] += m.weight(t)
	}
	edge, before := 0, 0
	for edge < nBins && (sum+s.bins[edge] < goal || before+int(s.members[edge]) < minKeep) {
		sum += s.bins[edge]
		before += int(s.members[edge])
		edge++
	}
	end := 0
	for i, t := range s.kept {
		b := bin(m.key(t))
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
	return sure, sum
}
