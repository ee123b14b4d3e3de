package model

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/kernel"
)

// A rank that the others wait for is found, with shares that would balance, and not where all wait for the network.
func TestSlowest(t *testing.T) {
	load := func(computed, waited int) kernel.RankLoad {
		return kernel.RankLoad{Computed: time.Duration(computed) * time.Second, Waited: time.Duration(waited) * time.Second}
	}
	for _, c := range []struct {
		what   string
		did    []kernel.RankLoad
		shares []int
		slow   bool
		rank   int
		waits  float64
		split  []int
	}{
		{"rank 1 needs twice as long", []kernel.RankLoad{load(20, 22), load(40, 2)}, nil, true, 1, 20. / 42, []int{67, 33}},
		{"shares that do not fit", []kernel.RankLoad{load(30, 10), load(15, 25), load(15, 25)}, []int{2, 1, 1}, true, 0, 15. / 40, []int{33, 33, 33}},
		{"a slow network", []kernel.RankLoad{load(20, 30), load(20, 30)}, nil, false, 0, 0, nil},
		{"a little", []kernel.RankLoad{load(20, 4), load(23, 1)}, nil, false, 1, 0, nil},
		{"nothing was computed", []kernel.RankLoad{load(0, 0), load(0, 0)}, nil, false, 0, 0, nil},
		{"one rank", []kernel.RankLoad{load(5, 0)}, nil, false, 0, 0, nil},
	} {
		got, slow := Slowest(c.did, c.shares, false)
		if slow != c.slow || slow && (got.Rank != c.rank || math.Abs(got.Waits-c.waits) > 1e-9 || !slices.Equal(got.Shares, c.split)) {
			t.Errorf("%s: %+v, %v", c.what, got, slow)
		}
	}
	one, behind := []kernel.RankLoad{load(20, 40), load(20, 20), load(20, 30)}, []kernel.RankLoad{load(20, 40), load(40, 20)}
	if got, slow := Slowest(one, nil, true); slow {
		t.Errorf("ranks with layers that compute alike: %+v", got)
	}
	if got, slow := Slowest(behind, nil, true); !slow || got.Rank != 1 || got.Waits != 0.5 {
		t.Errorf("a rank whose layers take longer: %+v, %v", got, slow)
	}
}
