package sched

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// learned returns a cost model that has observed each size.
func learned(truth func(Shape) time.Duration) (c Cost) {
	for _, n := range sizes {
		c.Observe(Shape{Tokens: n, Rows: n}, truth(Shape{Tokens: n}))
	}
	return c
}

// chain returns a trunk of n drafts, each with the same chance.
func chain(n int, chance float64) (list []Draft) {
	for i := range n {
		list = append(list, Draft{chance, i - 1})
	}
	return list
}

func chosen(c *Cost, streams, drafts int, chance float64, replays bool) (n int) {
	s := speculation{cost: c, limit: longest, replays: replays, room: most, longest: most}
	for range streams {
		s.whole = s.whole.Add(0, 1)
		s.whole.Rows++
		s.list = append(s.list, candidate{known: 1, drafts: chain(drafts, chance)})
	}
	s.streams = s.whole
	for _, t := range s.choose() {
		n += t.trunk
	}
	return n
}

// The chosen number of drafts has nearly the highest expected tokens per time, compared with all numbers.
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

// Where the tokens of many streams already determine the time, only nearly certain drafts are verified.
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

// A sequence alone gets a few drafts while their cost is unknown, to measure it.
func TestDraftsOfAnUnknownCost(t *testing.T) {
	var c Cost
	c.Observe(Shape{Tokens: 1, Rows: 1}, time.Millisecond)
	drafts := func(c Cost, batch int, list []Draft) int {
		s := New(Config{Running: 1, Batch: batch, Memory: simMemory{}, Alone: true})
		s.Cost = c
		if _, err := s.Add(Request{ID: 1, Prompt: 1, MaxTokens: 100}, 0); err != nil {
			t.Fatal(err)
		}
		s.Admit(0, 1<<30, func(uint64) Prefix { return Prefix{} })
		s.Ran(s.Next(0, 1<<30), 0)
		s.Sampled(1, 1, 1)
		s.Drafted(1, list)
		return s.Next(0, 1<<30)[0].Draft
	}
	if n := drafts(c, 100, chain(10, 0.9)); n != leastGauged-1 {
		t.Errorf("%d drafts, want %d", n, leastGauged-1)
	}
	for _, r := range []struct{ drafts, batch, want int }{
		{0, 100, 0}, {1, 100, 1}, {2, 100, 2}, {3, 100, 3}, {10, 1, 0}, {10, 2, 1}, {10, 3, 2},
	} {
		if n := drafts(c, r.batch, chain(r.drafts, 0.9)); n != r.want {
			t.Errorf("%d of %d drafts in passes of at most %d tokens, want %d", n, r.drafts, r.batch, r.want)
		}
	}
	if n := drafts(c, 100, chain(3, likely-0.01)); n != 0 {
		t.Errorf("%d drafts that are likely wrong are tried while their cost is unknown", n)
	}
	c.Observe(Shape{Tokens: 4, Rows: 4}, 4*time.Millisecond)
	if n := drafts(c, 100, chain(10, 0.9)); n != 0 {
		t.Errorf("%d drafts of a pass that takes as long as its tokens one by one", n)
	}
	if n := drafts(learned(flatCost(20*time.Millisecond, time.Millisecond)), 6, chain(10, 1)); n != 5 {
		t.Errorf("%d drafts where 6 tokens fit, want 5", n)
	}
}

// Passes of a request that nothing else waits for are as long as they can be, with drafts or without.
func TestNothingLimitsThePassesOfOneAlone(t *testing.T) {
	for _, alone := range []bool{false, true} {
		s := New(Config{Running: 1, Batch: 500, Memory: simMemory{}, Alone: alone})
		s.Cost = learned(flatCost(2*time.Second, time.Second))
		if _, err := s.Add(Request{ID: 1, Prompt: 500, MaxTokens: 100}, 0); err != nil {
			t.Fatal(err)
		}
		s.Admit(0, 1<<30, func(uint64) Prefix { return Prefix{} })
		if n := s.Next(0, 1<<30)[0].Tokens; (n == 500) != alone {
			t.Errorf("alone %v: %d of 500 tokens in a pass", alone, n)
		}
	}
}

// Drafts that seem to lose a little are tried once in a while, lest a cost that was estimated too high stays for ever.
func TestDraftsAreTriedAgain(t *testing.T) {
	c := learned(func(s Shape) time.Duration { return 5*time.Millisecond + time.Duration(s.Tokens)*time.Millisecond })
	for round := range 2 {
		for i := range trial {
			if n := chosen(&c, 1, 1, 0.1, false); n > 0 {
				t.Fatalf("round %d: a draft that loses in pass %d", round, i)
			}
		}
		if n := chosen(&c, 1, 1, 0.1, false); n != 1 {
			t.Errorf("round %d: no draft is tried after %d passes", round, trial)
		}
	}
}

// The trust counts once on each path: at its first draft that is not certain.
func TestTrustCountsOnce(t *testing.T) {
	c := candidate{drafts: []Draft{{1, -1}, {0.5, 0}, {0.8, 1}, {1, 2}, {0.2, -1}}, of: make([]chance, 5)}
	for v, want := range []float64{1, 0.25, 0.2, 0.2, 0.1} {
		o := &c.of[v]
		if o.reach, o.doubted = c.reach(v, 0.5); math.Abs(o.reach-want) > 1e-12 || o.doubted != (want < 1) {
			t.Errorf("draft %d: %v, doubted %v, want %v", v, o.reach, o.doubted, want)
		}
	}
}

// The time of evaluating tokens again after a rejection counts, however small the part of each stream.
func TestReplaysCount(t *testing.T) {
	c := learned(func(s Shape) time.Duration { return 5*time.Millisecond + time.Duration(s.Tokens)*time.Millisecond })
	if free, dear := chosen(&c, 8, 1, 0.75, false), chosen(&c, 8, 1, 0.75, true); free != 8 || dear != 0 {
		t.Errorf("%d drafts, %d with tokens evaluated again, want 8 and 0", free, dear)
	}
	s := New(Config{Running: 1, Batch: 64, Memory: simMemory{}, Replays: true})
	s.Cost = learned(flatCost(20*time.Millisecond, time.Microsecond))
	if _, err := s.Add(Request{ID: 1, Prompt: 1, MaxTokens: 100}, 0); err != nil {
		t.Fatal(err)
	}
	s.Admit(0, 100, func(uint64) Prefix { return Prefix{} })
	s.Ran(s.Next(0, 100), 1)
	s.Sampled(1, 1, 1)
	for range leastPlain {
		s.Cost.Generated(Pass{Streams: ShapeOf(1, 1), Tokens: 1, Took: 20 * time.Millisecond})
	}
	for i, want := range []Item{{1, 3, 2, nil}, {1, 2, 0, nil}, {1, 3, 2, nil}} {
		s.Drafted(1, chain(2, 0.9))
		items := s.Next(0, 100)
		if len(items) != 1 || !reflect.DeepEqual(items[0], want) {
			t.Fatalf("pass %d: %+v, want %+v", i, items, want)
		}
		s.Ran(items, 1)
		evaluated := s.find(1).done
		if want.Draft > 0 {
			evaluated-- // rejected: rolled back to the state before the pass
		}
		s.Sampled(1, 1, evaluated)
	}
}

// The time of choosing drafts, which is between two passes: for streams with many drafts, as chains or trees.
func BenchmarkChoose(b *testing.B) {
	c := learned(flatCost(20*time.Millisecond, 2*time.Millisecond))
	for _, streams := range []int{1, 4, 16} {
		for _, p := range []float64{0.3, 0.8, 0.95} {
			for name, drafts := range map[string][]Draft{"chains": chain(16, p), "trees": workload{drafts: 13, claimed: p, rival: 0.5}.tree()} {
				b.Run(fmt.Sprintf("%d of %.2f in %s", streams, p, name), func(b *testing.B) {
					for b.Loop() {
						s := speculation{cost: &c, limit: longest, room: most, longest: most, forks: 16}
						for range streams {
							s.whole = s.whole.Add(0, 1)
							s.whole.Rows++
							s.list = append(s.list, candidate{known: 1, drafts: drafts})
						}
						s.streams = s.whole
						s.choose()
					}
				})
			}
		}
	}
}

// Only passes that could have had drafts count as those without: a text that seldom has drafts gets its trial too.
func TestPassesWithNothingToTryDoNotCount(t *testing.T) {
	m := newSim(t, Config{Running: 1, Batch: 64, Queue: 1}, 1000, func(s Shape) time.Duration {
		return 5*time.Millisecond + time.Duration(s.Tokens)*time.Millisecond
	})
	if err := m.add(Request{ID: 1, Prompt: 4, MaxTokens: 1000}); err != nil {
		t.Fatal(err)
	}
	for range leastPlain + 4 {
		m.step()
	}
	passes, tried := 0, 0
	for i := 0; i < 4*trial && tried == 0; i++ {
		m.live[1].draft, m.live[1].chance = 1, 0.1
		if i%2 > 0 {
			m.s.Drafted(1, nil) // only every other pass has one
		} else {
			passes++
		}
		if m.step(); m.plan[0].Draft > 0 {
			tried = passes
		}
	}
	if tried == 0 || tried > trial+2 {
		t.Errorf("the first draft is tried after %d that were not, want %d", tried, trial)
	}
}

// A pass with drafts is at most a quarter larger than the largest whose time is known, or than its streams.
func TestPassesWithDraftsGrowSlowly(t *testing.T) {
	var c Cost
	if got := c.largest(1); got < 1000 {
		t.Errorf("the first pass with drafts has %d tokens at most", got)
	}
	for _, n := range []int{4, 8, 16, 64} {
		c.Observe(Shape{Tokens: n, Rows: n}, 20*time.Millisecond)
		for streams, want := range map[int]int{1: n * 5 / 4, n: n * 5 / 4, 4 * n: 5 * n} {
			if got := c.largest(streams); got != want {
				t.Errorf("after a pass of %d, %d streams have one of %d at most, want %d", n, streams, got, want)
			}
		}
	}
}
