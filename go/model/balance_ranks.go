package model

import (
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// A Slow is a rank that others wait for.
type Slow struct {
	Rank   int
	Waits  float64 // the part of their time in passes that the others wait for it, on average
	Shares []int   // of all ranks, with which none would wait
}

// worthSaying is the part of the time in passes that ranks may wait for another.
const worthSaying = 0.2

// Slowest returns the rank that others wait for, given what all did in some time and their shares (nil: the same). It
// reports false where nobody waits for long. The rank that computes most waits for the network alone; what others wait
// longer than that they wait for it. Ranks that have layers each wait for each other in any case: there it is what the
// others compute less, which they would wait if all were busy.
func Slowest(did []kernel.RankLoad, shares []int, layers bool) (Slow, bool) {
	if len(did) < 2 || slices.ContainsFunc(did, func(l kernel.RankLoad) bool { return l.Computed <= 0 }) {
		return Slow{}, false
	}
	s := Slow{Shares: make([]int, len(did))}
	for r, l := range did {
		if l.Computed > did[s.Rank].Computed {
			s.Rank = r
		}
	}
	for _, l := range did {
		longer, of := max(l.Waited-did[s.Rank].Waited, 0), l.Computed+l.Waited
		if layers {
			longer, of = did[s.Rank].Computed-l.Computed, did[s.Rank].Computed
		}
		s.Waits += float64(longer) / float64(of) / float64(len(did)-1)
	}
	speeds, sum := make([]float64, len(did)), 0.0
	for r, l := range did {
		speeds[r] = 1 / l.Computed.Seconds()
		if shares != nil {
			speeds[r] *= float64(shares[r])
		}
		sum += speeds[r]
	}
	for r, x := range speeds {
		s.Shares[r] = max(int(math.Round(100*x/sum)), 1)
	}
	return s, s.Waits > worthSaying
}
