package sched

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// learned returns a cost model that has seen what passes take.
func learned(truth func(Shape) time.Duration) (c Cost) {
	for _, n := range sizes {
		c.Observe(Shape{Tokens: n}, truth(Shape{Tokens: n}))
	}
	return c
}

func chosen(c *Cost, streams, drafts int, chance float64, replays bool) int {
	s := speculation{cost: c, limit: longest, replays: replays, fits: func(int, Shape) bool { return true }}
	for range streams {
		s.whole = s.whole.Add(0, 1)
		s.whole.Rows++
		s.list = append(s.list, candidate{at: 1, known: 1, chances: slices.Repeat([]float64{chance}, drafts)})
	}
	s.streams = s.whole
	return len(s.choose())
}

// As many drafts are chosen as give the most expected tokens per time, by trying all numbers.
func TestDraftsAreChosenByCost(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		first, each := time.Duration(1+rng.IntN(50))*time.Millisecond, time.Duration(1+rng.IntN(20_000))*time.Microsecond
		c := learned(func(s Shape) time.Duration { return max(first, time.Duration(s.Tokens)*each) })
		p := rng.Float64()
		got := chosen(&c, 1, 15, p, false)
		rate := func(n int) float64 {
			tokens, reach := 1.0, 1.0
			for range n {
				reach *= p
				tokens += reach
			}
			return tokens / float64(c.Estimate(Shape{Tokens: 1 + n}))
		}
		if got > 0 && rate(got) < rate(0) {
			t.Errorf("%v a pass, %v a token, chance %.2f: %d drafts are slower than none", first, each, p, got)
		}
		for n := range 16 {
			if rate(n) > 1.04*rate(got) {
				t.Errorf("%v a pass, %v a token, chance %.2f: %d drafts are faster than %d", first, each, p, n, got)
				break
			}
		}
	}
}

// Where the tokens of many streams are what takes the time, nothing is drafted that is not nearly certain.
func TestManyStreamsHaveFewDrafts(t *testing.T) {
	c := learned(flatCost(20*time.Millisecond, 2*time.Millisecond))
	if n := chosen(&c, 1, 15, 0.8, false); n < 5 {
		t.Errorf("one stream has %d drafts", n)
	}
	if n := chosen(&c, 32, 15, 0.8, false); n > 0 {
		t.Errorf("32 streams have %d drafts", n)
	}
	if n := chosen(&c, 4, 15, 0.8, false); n < 4 || n > 12 {
		t.Errorf("4 streams have %d drafts", n)
	}
	if free, dear := chosen(&c, 1, 15, 0.6, false), chosen(&c, 1, 15, 0.6, true); dear > free {
		t.Errorf("with accepted drafts evaluated again there are %d, without %d", dear, free)
	}
	linear := learned(func(s Shape) time.Duration { return time.Duration(s.Tokens) * time.Millisecond })
	if n := chosen(&linear, 1, 15, 0.95, false); n > 0 {
		t.Errorf("where each token takes as long as the first, %d drafts", n)
	}
}

// A sequence alone whose costs are not known yet is given a few, to learn them.
func TestDraftsOfAnUnknownCost(t *testing.T) {
	var c Cost
	c.Observe(Shape{Tokens: 1}, time.Millisecond)
	if n := c.Drafts(10, 1, 100, slices.Repeat([]float64{0.9}, 10), false); n != leastGauged-1 {
		t.Errorf("%d drafts, want %d", n, leastGauged-1)
	}
	c.Observe(Shape{Tokens: 4}, 4*time.Millisecond)
	if n := c.Drafts(10, 1, 100, slices.Repeat([]float64{0.9}, 10), false); n != 0 {
		t.Errorf("%d drafts of a pass that takes as long as its tokens one by one", n)
	}
	c = learned(flatCost(20*time.Millisecond, time.Millisecond))
	if n := c.Drafts(10, 1, 6, slices.Repeat([]float64{1}, 10), false); n != 5 {
		t.Errorf("%d drafts where 6 tokens fit, want 5", n)
	}
}

// Where a rejection has the tokens of its pass evaluated again, that counts, however small the part of each stream.
func TestReplaysCount(t *testing.T) {
	c := learned(func(s Shape) time.Duration { return 5*time.Millisecond + time.Duration(s.Tokens)*time.Millisecond })
	if free, dear := chosen(&c, 8, 1, 0.75, false), chosen(&c, 8, 1, 0.75, true); free != 8 || dear != 0 {
		t.Errorf("%d drafts, %d with tokens evaluated again, want 8 and 0", free, dear)
	}
	s := New(Config{Running: 1, Batch: 64, Memory: simMemory{}, Replays: true})
	s.Cost = learned(flatCost(20*time.Millisecond, time.Microsecond))
	if err := s.Add(Request{ID: 1, Prompt: 1, MaxTokens: 100}, 0); err != nil {
		t.Fatal(err)
	}
	s.Admit(0, 100, func(uint64) Prefix { return Prefix{} })
	s.Ran(s.Next(0, 100), 1)
	s.Sampled(1, 1, 1)
	for range leastPlain {
		s.Cost.Generated(Pass{Streams: ShapeOf(1, 1), Tokens: 1, Took: 20 * time.Millisecond})
	}
	for i, want := range []Item{{1, 3, 2}, {1, 2, 0}, {1, 3, 2}} {
		s.Drafted(1, []float64{0.9, 0.9})
		items := s.Next(0, 100)
		if len(items) != 1 || items[0] != want {
			t.Fatalf("pass %d: %+v, want %+v", i, items, want)
		}
		s.Ran(items, 1)
		evaluated := s.find(1).done
		if want.Draft > 0 {
			evaluated-- // rejected: the state is that before the pass
		}
		s.Sampled(1, 1, evaluated)
	}
}
