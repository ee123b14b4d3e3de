package engine

import (
	"testing"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
)

// A rank that others wait for is said once, after a minute of it, and again only after a minute without.
func TestSlowIsSaidOnce(t *testing.T) {
	var has [2]kernel.RankLoad
	var said []model.Slow
	now := time.Now()
	w := slowWatch{
		loads: func() []kernel.RankLoad { return append([]kernel.RankLoad{}, has[:]...) },
		slow:  func(s model.Slow) { said = append(said, s) },
	}
	for i, c := range []struct {
		computed, waited [2]int // seconds of a minute
		want             int
	}{
		{[2]int{20, 40}, [2]int{20, 0}, 1},
		{[2]int{20, 40}, [2]int{20, 0}, 1}, // the same
		{[2]int{1, 2}, [2]int{1, 0}, 1},    // hardly any passes: nothing is known
		{[2]int{20, 40}, [2]int{20, 0}, 1},
		{[2]int{30, 30}, [2]int{1, 1}, 1},
		{[2]int{20, 40}, [2]int{20, 0}, 2},
	} {
		w.look(now)
		for r := range has {
			has[r].Computed += time.Duration(c.computed[r]) * time.Second
			has[r].Waited += time.Duration(c.waited[r]) * time.Second
		}
		w.look(now.Add(slowAfter / 2)) // not yet
		now = now.Add(slowAfter)
		w.look(now)
		if len(said) != c.want {
			t.Fatalf("minute %d: said %d times, want %d", i, len(said), c.want)
		}
	}
	if said[0].Rank != 1 {
		t.Errorf("rank %d", said[0].Rank)
	}
}
