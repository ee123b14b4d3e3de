package sched

import (
	"math/rand/v2"
	"testing"
	"time"
)

// speed returns the tokens per second of some streams in so many passes. Of their drafts, each is right with a chance
// of 0.6. What the cost model has seen before they begin is wrong by factors.
func speed(t *testing.T, streams, drafts, passes int, truth func(Shape) time.Duration, wrong map[int]float64) float64 {
	m := newSim(t, Config{Running: streams, Batch: 512, Queue: 10}, 100_000, truth)
	m.s.Cost = Cost{}
	for _, n := range []int{1, 4, 8, 16, 64, 256} {
		factor := 1.0
		if f, ok := wrong[n]; ok {
			factor = f
		}
		m.s.Cost.Observe(Shape{Tokens: n}, time.Duration(factor*float64(truth(Shape{Tokens: n}))))
	}
	rng := rand.New(rand.NewPCG(uint64(streams), 2))
	for id := uint64(1); id <= uint64(streams); id++ {
		if err := m.add(Request{ID: id, Prompt: 10, MaxTokens: 1 << 20}); err != nil {
			t.Fatal(err)
		}
		m.live[id].draft, m.live[id].chance = drafts, 0.6
		m.live[id].right = func(guessed int) (n int) {
			for n < guessed && rng.Float64() < 0.6 {
				n++
			}
			return n
		}
	}
	m.step()
	begun, before := m.now, 0
	for _, q := range m.live {
		before += q.tokens
	}
	for range passes {
		m.step()
	}
	tokens := -before
	for _, q := range m.live {
		tokens += q.tokens
	}
	return float64(tokens) / (m.now - begun).Seconds()
}

// Drafts stop where they are slower than none, though the cost model was wrong from the start, and where passes take longer by
// them than by other tokens; where they are faster they go on.
func TestDraftsThatLoseStop(t *testing.T) {
	steep := func(s Shape) time.Duration { // twice the tokens take 1.8 times as long
		return 2*time.Millisecond + time.Duration(s.Tokens)*time.Millisecond
	}
	flat := func(s Shape) time.Duration { return 20*time.Millisecond + time.Duration(s.Tokens)*time.Millisecond/2 }
	for _, c := range []struct {
		name    string
		streams int
		truth   func(Shape) time.Duration
		wrong   map[int]float64
		least   float64
	}{
		{"slow at first", 8, steep, map[int]float64{1: 2, 4: 2, 8: 2}, 0.98},
		{"slow at first, alone", 1, steep, map[int]float64{1: 3}, 0.97},
		{"drafts thought cheap", 8, steep, map[int]float64{16: 0.55, 64: 0.2}, 0.98},
		{"right", 8, steep, nil, 0.98},
		{"they win", 8, flat, nil, 1.2},
		{"they win alone", 1, flat, nil, 1.6},
		{"they win, slow at first", 4, flat, map[int]float64{1: 2, 4: 2}, 1.4},
	} {
		for _, passes := range []int{300, 1500} {
			if got := speed(t, c.streams, 4, passes, c.truth, c.wrong) / speed(t, c.streams, 0, passes, c.truth, c.wrong); got < c.least {
				t.Errorf("%s: with drafts %.3f of the speed without in %d passes, want %.2f", c.name, got, passes, c.least)
			}
		}
	}
}
