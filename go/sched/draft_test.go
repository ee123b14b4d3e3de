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
	if n := drafts(c, 100, chain(3, likely)); n != 3 {
		t.Errorf("%d of three likely drafts are tried while their cost is unknown", n)
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
	for range 2 * trial { // what is not looked at does not count
		chosen(&c, 1, 1, unlikely, false)
	}
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

// A draft extends the trunk or the branch that ends with its parent; otherwise it begins a branch. A snapshot is not extended.
func TestTreesGrow(t *testing.T) {
	list := []Draft{{1, -1}, {1, 0}, {1, -1}, {1, 2}, {1, 3}, {1, 0}, {1, 1}}
	for _, c := range []struct {
		add   []int
		trunk int
		want  []Branch
	}{
		{[]int{0, 1}, 2, nil},
		{[]int{0, 2, 3, 1}, 2, []Branch{{[]int{2, 3}, 2}}},
		{[]int{2, 3, 4, 0}, 1, []Branch{{[]int{2, 3, 4}, 3}}},
		{[]int{0, 1, 5, 2}, 2, []Branch{{[]int{0, 5}, 1}, {[]int{2}, 1}}},
		{[]int{0, 1, 6}, 2, []Branch{{[]int{0, 1, 6}, 1}}}, // not the next of the list
	} {
		var got tree
		for _, v := range c.add {
			got.add(list, v)
		}
		if got.trunk != c.trunk || len(got.branches) != len(c.want) || len(c.want) > 0 && !reflect.DeepEqual(got.branches, c.want) {
			t.Errorf("%v are added: a trunk of %d and %+v, want %d and %+v", c.add, got.trunk, got.branches, c.trunk, c.want)
		}
	}
	snapshot := tree{trunk: 1, branches: []Branch{{}, {Path: []int{0}}}}
	for v, want := range map[int]int{2: 2, 5: 2, 1: -1} {
		if got := snapshot.end(list, v); got != want {
			t.Errorf("draft %d extends sequence %d, want %d", v, got, want)
		}
	}
	for v, want := range map[int]bool{-1: true, 0: true, 1: false, 2: false} {
		if got := snapshot.ends(v); got != want {
			t.Errorf("a sequence ends with draft %d: %v", v, got)
		}
	}
}

// Where no sequence ends with the last accepted draft, the known tokens and the accepted drafts are evaluated again.
func TestReplayed(t *testing.T) {
	for _, c := range []struct {
		drafts         []Draft
		trunk          int
		branches       []Branch
		chance, tokens float64
	}{
		{chain(2, 0.5), 0, nil, 0, 0}, // the trunk is of known tokens only: it ends there
		{chain(2, 0.5), 1, nil, 0.5, 0.5 * 3},
		{chain(2, 0.5), 2, nil, 0.75, 0.5*3 + 0.25*4},
		{chain(2, 0.5), 2, []Branch{{}}, 0.25, 0.25 * 4},
		{chain(2, 0.5), 2, []Branch{{Path: []int{0}}}, 0.5, 0.5 * 3},
		{chain(2, 0.5), 2, []Branch{{}, {Path: []int{0}}}, 0, 0},
		{[]Draft{{0.5, -1}, {0.3, -1}}, 1, []Branch{{[]int{1}, 1}}, 0.2, 0.2 * 3},
		{chain(2, 1), 2, nil, 0, 0},
	} {
		cand := candidate{known: 3, drafts: c.drafts}
		cand.begin()
		for v := range c.trunk {
			cand.take(v, 1, false)
		}
		for _, b := range c.branches {
			if b.New > 0 {
				cand.take(b.Path[0], 1, false)
			} else {
				cand.branches = append(cand.branches, b)
			}
		}
		if chance, tokens := cand.replayed(); math.Abs(chance-c.chance) > 1e-12 || math.Abs(tokens-c.tokens) > 1e-12 {
			t.Errorf("a trunk of %d of %v, branches %+v: %v tokens again with chance %v, want %v and %v", c.trunk, c.drafts, c.branches, tokens, chance, c.tokens, c.chance)
		}
	}
	cost := learned(func(s Shape) time.Duration { return time.Duration(s.Tokens*s.Tokens) * time.Millisecond })
	s := speculation{cost: &cost, streams: Shape{Tokens: 2}, list: []candidate{{again: 1.5}, {again: 0.75}}}
	if got, want := s.replay(1e6), (16+0.25*9-1)*1e6; math.Abs(got-want) > 10 { // 2.25 tokens more than two
		t.Errorf("evaluating again takes %v, want %v", got, want)
	}
}

// observed makes branches possible: passes without drafts were measured.
func observed(c Cost) *Cost {
	for range leastPlain {
		c.Generated(Pass{Streams: ShapeOf(1, 1), Tokens: 1, Took: c.Estimate(ShapeOf(1, 1))})
	}
	return &c
}

// Snapshots are after the known tokens, the first draft, and so on, as long as each pays, as many as may be.
func TestSnapshotsInOrder(t *testing.T) {
	c := observed(learned(func(s Shape) time.Duration { return 100*time.Millisecond + time.Duration(s.Tokens)*10*time.Microsecond }))
	for forks := range 7 {
		one := ShapeOf(1, 1)
		s := speculation{cost: c, whole: one, streams: one, limit: longest, replays: true, room: 1000, longest: 1000, forks: forks,
			list: []candidate{{known: 1, drafts: chain(4, 0.6)}}}
		got := s.choose()[0]
		if want := min(forks, 4); got.trunk != 4 || len(got.branches) != want {
			t.Errorf("%d branches: a trunk of %d with %+v, want 4 with %d snapshots", forks, got.trunk, got.branches, want)
		}
		for i, b := range got.branches {
			if b.New != 0 || len(b.Path) != i || i > 0 && b.Last() != i-1 {
				t.Errorf("%d branches: snapshot %d is after %v", forks, i, b.Path)
			}
		}
	}
	dear := *c
	dear.branch = 1e9
	one := ShapeOf(1, 1)
	s := speculation{cost: &dear, whole: one, streams: one, limit: longest, replays: true, room: 1000, longest: 1000, forks: 4,
		list: []candidate{{known: 1, drafts: chain(4, 0.6)}}}
	if got := s.choose()[0]; len(got.branches) != 0 {
		t.Errorf("snapshots of a second each: %+v", got.branches)
	}
}

// The first of siblings comes first, then what is likeliest for the tokens that it adds: a branch adds its whole path.
func TestWhatComesNext(t *testing.T) {
	c := observed(learned(func(s Shape) time.Duration { return time.Second + time.Duration(s.Tokens)*time.Microsecond }))
	if got := chosenTree(c, 1, []Draft{{0.3, -1}, {0.6, -1}}, 3, 100, 4); got.trunk != 1 || len(got.branches) != 0 {
		t.Errorf("where two tokens fit beside the known one: a trunk of %d and %+v, want the first sibling", got.trunk, got.branches)
	}
	list := []Draft{{0.9, -1}, {0.4, 0}, {0.5, 1}, {0.5, 0}} // 0.18 for a token, or 0.45 for three
	if got := chosenTree(c, 1, list, 6, 100, 4); got.trunk != 3 || len(got.branches) != 0 {
		t.Errorf("where 6 tokens fit: a trunk of %d and %+v, want 3", got.trunk, got.branches)
	}
	list[2].Chance = 0.3 // 0.11 for a token
	if got := chosenTree(c, 1, list, 6, 100, 4); got.trunk != 2 || len(got.branches) != 1 {
		t.Errorf("where 6 tokens fit: a trunk of %d and %+v, want 2 and a branch", got.trunk, got.branches)
	}
	for room, want := range map[int][]int{4: {1, 1}, 5: {2, 1}, 6: {2, 2}, 8: {3, 3}} { // equal ones by turns
		s := speculation{cost: c, limit: longest, room: room, longest: most, list: []candidate{{known: 1, drafts: chain(9, 1)}, {known: 1, drafts: chain(9, 1)}}}
		s.whole = ShapeOf(0, 1).Add(0, 1)
		s.streams = s.whole
		trees := s.choose()
		if got := []int{trees[0].trunk, trees[1].trunk}; !reflect.DeepEqual(got, want) {
			t.Errorf("where %d tokens fit, two equal streams have %v drafts, want %v", room, got, want)
		}
	}
}

// Drafts take memory by the blocks that they begin, and passes with them at most twice the time of those without.
func TestDraftsAreLimited(t *testing.T) {
	for _, c := range []struct {
		prompt, drafts int
		itl            time.Duration
		free           uint64
		want           int
	}{
		{60, 10, 0, 0, 3}, {60, 10, 0, 1, 10}, {60, 100, 0, 1, 67}, {60, 100, 0, 2, 100}, {63, 10, 0, 0, 0}, {64, 10, 0, 1, 10},
		{60, 100, time.Millisecond, 9, 11}, {60, 100, 40 * time.Millisecond, 9, 21}, // 22 ms; 32 of 40
	} {
		s := New(Config{Running: 1, Batch: 500, Queue: 1, Memory: simMemory{}, TargetITL: c.itl})
		s.Cost = learned(func(s Shape) time.Duration { return 10*time.Millisecond + time.Duration(s.Tokens)*time.Millisecond })
		begin(t, s, Request{ID: 1, Prompt: c.prompt, MaxTokens: 1000})
		items := s.Next(0, 1<<30)
		for len(items) > 0 {
			for _, id := range s.Ran(items, 0) {
				s.Sampled(id, 1, c.prompt)
				s.Drafted(id, chain(c.drafts, 1))
			}
			if items = nil; s.find(1).todo() != 1 {
				items = s.Next(0, 1<<30)
			}
		}
		if got := s.Next(0, c.free); len(got) != 1 || got[0].Draft != c.want || got[0].Tokens != c.want+1 {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
