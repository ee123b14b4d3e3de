package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// randomTree returns a tree in which the chances of siblings add up to at most 1, the likeliest first.
func randomTree(rng *rand.Rand, n int) (list []Draft) {
	left, least := []float64{1}, []float64{1} // by node + 1: chance left for children, and the last one of a child
	for v := range n {
		after := rng.IntN(v+1) - 1
		if rng.IntN(2) == 0 {
			after = v - 1
		}
		p := min(left[after+1]*rng.Float64(), least[after+1])
		left[after+1], least[after+1] = left[after+1]-p, p
		left, least = append(left, 1), append(least, 1)
		list = append(list, Draft{p, after})
	}
	return list
}

// chosenTree returns the drafts that are chosen for a text alone, of which so many tokens are evaluated anyway.
func chosenTree(c *Cost, known int, list []Draft, tokens, longest, forks int) tree {
	s := speculation{
		cost: c, whole: ShapeOf(0, known), limit: time.Hour, room: tokens, longest: longest, forks: forks,
		list: []candidate{{known: known, drafts: list}},
	}
	s.whole.Rows = 1
	s.streams = s.whole
	return s.choose()[0]
}

// rateOf returns the expected tokens per second of a pass of one text with a tree.
func rateOf(c *Cost, list []Draft, known int, trunk int, branches []Branch) float64 {
	s := Shape{}.Add(0, known+trunk)
	s.Rows = 1 + trunk
	tokens := 1.0
	reach := make([]float64, len(list))
	for v, d := range list {
		reach[v] = d.Chance
		if d.After >= 0 {
			reach[v] *= reach[d.After]
		}
		if v < trunk {
			tokens += reach[v]
		}
	}
	for _, b := range branches {
		s = s.Add(0, known+len(b.Path))
		s.Rows += b.New
		s.Branches++
		for _, v := range b.Path[len(b.Path)-b.New:] {
			tokens += reach[v]
		}
	}
	return tokens / float64(c.Estimate(s))
}

// The chosen tree has nearly the most expected tokens per second of all possible trees, which are enumerated.
// Branches are complete: each begins at the known tokens, contains drafts of other sequences up to where it
// forks, and no draft has two rows of logits.
func TestTreesAreChosenByCost(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	branched, worst := 0, 1.0
	for range 400 {
		first, each := 10+40*rng.Float64(), 0.05+3*rng.Float64()
		c := learned(func(s Shape) time.Duration {
			return time.Duration((first + each*float64(s.Tokens)) * float64(time.Millisecond))
		})
		for range leastPlain {
			c.Generated(Pass{Streams: ShapeOf(0, 1), Tokens: 1, Took: c.First()})
		}
		list, known := randomTree(rng, 1+rng.IntN(8)), 1+rng.IntN(2)
		tokens, longest, forks := 4+rng.IntN(20), 2+rng.IntN(8), rng.IntN(4)
		limits := fmt.Sprintf("%d tokens, %d of a sequence, %d branches", tokens, longest, forks)
		of := chosenTree(&c, known, list, tokens, longest, forks)
		trunk, branches := of.trunk, of.branches
		there := make([]bool, len(list))
		for v := range trunk {
			there[v] = list[v].After == v-1
			if !there[v] {
				t.Fatalf("%+v: draft %d is in the trunk", list, v)
			}
		}
		taken := known + trunk
		for _, b := range branches {
			taken += known + len(b.Path)
			for i, v := range b.Path {
				if after := list[v].After; i == 0 && after >= 0 || i > 0 && after != b.Path[i-1] || there[v] != (i < len(b.Path)-b.New) {
					t.Fatalf("%+v: %d of the trunk and %+v", list, trunk, branches)
				}
				there[v] = true
			}
			if known+len(b.Path) > longest {
				t.Fatalf("a branch of %d tokens, want at most %s", known+len(b.Path), limits)
			}
		}
		if len(branches) > forks || taken > max(tokens, known) || known+trunk > max(longest, known) {
			t.Fatalf("%d of the trunk and %+v, want at most %s", trunk, branches, limits)
		}
		best := 0.0
		for set := range 1 << len(list) {
			var all tree
			ok, n := true, known
			for v, d := range list {
				if set>>v&1 == 0 {
					continue
				}
				elder := slices.IndexFunc(list, func(o Draft) bool { return o.After == d.After })
				ok = ok && (d.After < 0 || set>>d.After&1 == 1) && set>>elder&1 == 1
				if ok {
					all.add(list, v)
				}
			}
			n += all.trunk
			for _, b := range all.branches {
				n += known + len(b.Path)
				ok = ok && known+len(b.Path) <= longest
			}
			if ok && n <= tokens && known+all.trunk <= longest && len(all.branches) <= forks {
				best = max(best, rateOf(&c, list, known, all.trunk, all.branches))
			}
		}
		got := rateOf(&c, list, known, trunk, branches)
		if got < rateOf(&c, list, known, 0, nil) {
			t.Errorf("%+v: %d and %+v are slower than none", list, trunk, branches)
		}
		if worst = min(worst, got/best); got < 0.9*best {
			t.Errorf("first %.1f, each %.2f, %+v, %d known, %s: %d of the trunk and %+v give %.3f of the best", first, each, list, known, limits, trunk, branches, got/best)
		}
		if len(branches) > 0 {
			branched++
		}
	}
	if t.Logf("%d trees with branches, the worst has %.3f of the best", branched, worst); branched < 20 {
		t.Errorf("%d trees with branches: the test does not test that", branched)
	}
}

// Promise counts each draft once.
func TestPromiseOfATree(t *testing.T) {
	list := []Draft{{1, -1}, {0.5, 0}, {0.5, 1}, {0.25, 0}, {0.5, 3}}
	if sure, promised := Promise(list, 3, []Branch{{[]int{0, 3, 4}, 2}}); sure != 1 || promised != 0.5+0.25+0.25+0.125 {
		t.Errorf("%d are sure, %.3f promised", sure, promised)
	}
}

// The shape of a pass with branches has all their tokens, including the shared drafts, and rows of logits for the
// new ones.
func TestShapeOfBranches(t *testing.T) {
	s := New(Config{Running: 1, Batch: 64, Memory: simMemory{}, Branches: 4})
	if _, err := s.Add(Request{ID: 1, Prompt: 5, MaxTokens: 100}, 0); err != nil {
		t.Fatal(err)
	}
	s.Admit(0, 100, func(uint64) Prefix { return Prefix{} })
	s.Ran(s.Next(0, 100), 1)
	s.Sampled(1, 1, 5)
	got := s.Shape([]Item{{1, 3, 2, []Branch{{[]int{0, 2, 3}, 2}}}})
	want := Shape{}.Add(5, 3).Add(5, 4)
	want.Rows, want.Branches = 3+2, 1
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	// A branch takes memory for its positions, and for a copy of the block that it shares.
	s.Cost = learned(flatCost(20*time.Millisecond, time.Microsecond))
	for range leastPlain {
		s.Cost.Generated(Pass{Streams: ShapeOf(1, 1), Tokens: 1, Took: 20 * time.Millisecond})
	}
	for free, branches := range map[uint64]int{0: 0, 1: 1, 2: 2} {
		s.Drafted(1, []Draft{{0.5, -1}, {0.3, -1}, {0.2, -1}})
		if items := s.Next(0, free); len(items) != 1 || items[0].Draft != 1 || len(items[0].Branches) != branches {
			t.Errorf("%d blocks: %+v, want %d branches", free, items, branches)
		}
	}
}

// Trees compared with chains: never slower by more than trials cost, and faster where the first guess is often
// wrong and the second right.
func TestTreesAgainstChains(t *testing.T) {
	costs := []struct {
		name  string
		truth func(Shape) float64
	}{{"flat", flat}, {"steep", steep}, {"experts", experts}, {"logits", logits}, {"dear", dear}}
	for _, c := range costs {
		for _, streams := range []int{1, 4} {
			for _, p := range []float64{0.3, 0.5, 0.7} {
				w := workload{truth: c.truth, streams: streams, drafts: 8, right: p, claimed: p, rows: true}
				line, plain := fmt.Sprintf("%s, %d streams, %.1f right:", c.name, streams, p), 0.0
				none := w
				none.drafts = 0
				plain = none.speed(t, 400)[0]
				chains := w.speed(t, 400)[0] / plain
				line += fmt.Sprintf(" %.2f alone;", chains)
				for _, q := range []float64{0.4, 0.7} {
					w.rival = q
					if (1-p)*q > p {
						continue // it would be the first guess
					}
					for _, w.follow = range []int{0, 3} {
						trees := w.speed(t, 400)[0] / plain
						if line += fmt.Sprintf(" %.2f", trees); trees < 0.95*chains || trees < 0.98 {
							t.Errorf("%s, %d streams, %.1f right, the second %.1f: trees %.3f, without %.3f", c.name, streams, p, q, trees, chains)
						}
						if c.name == "flat" && streams == 1 && p == 0.5 && q == 0.7 && trees < 1.03*chains {
							t.Errorf("trees win little: %.3f, without %.3f", trees, chains)
						}
					}
				}
				t.Log(line)
			}
		}
	}
}

// Where rejected drafts have tokens evaluated again, snapshots after some of the drafts save more than they cost.
func TestSnapshotsPay(t *testing.T) {
	for _, p := range []float64{0.3, 0.5, 0.7, 0.9} {
		for _, streams := range []int{1, 4} {
			w := workload{truth: flat, streams: streams, drafts: 8, right: p, claimed: p, replays: true}
			none := w
			none.drafts = 0
			plain := none.speed(t, 400)[0]
			with := w.speed(t, 400)[0] / plain
			w.single = true
			without := w.speed(t, 400)[0] / plain
			if t.Logf("%d streams, %.1f right: %.3f, without %.3f", streams, p, with, without); with < 0.97*without || p == 0.7 && streams == 1 && with < 1.02*without {
				t.Errorf("%d streams, %.1f right: with states %.3f, without %.3f", streams, p, with, without)
			}
		}
	}
}

// Drafts that are certain need no snapshot, since nothing is evaluated again after them.
func TestSureDraftsHaveNoSnapshots(t *testing.T) {
	c := learned(flatCost(20*time.Millisecond, 200*time.Microsecond))
	for range leastPlain {
		c.Generated(Pass{Streams: ShapeOf(1, 1), Tokens: 1, Took: 20 * time.Millisecond})
	}
	for chance, want := range map[float64]bool{1: false, 0.6: true} {
		one := ShapeOf(1, 1)
		s := speculation{cost: &c, whole: one, streams: one, limit: longest, replays: true, room: 100, longest: 100, forks: 16,
			list: []candidate{{known: 1, drafts: chain(6, chance)}}}
		if tree := s.choose()[0]; tree.trunk < 2 || (len(tree.branches) > 0) != want {
			t.Errorf("drafts of chance %v: a trunk of %d and %d snapshots", chance, tree.trunk, len(tree.branches))
		}
	}
}

// Trunks, branches and snapshots fit in the tokens that a pass may have.
func TestTreesFit(t *testing.T) {
	c := learned(flatCost(20*time.Millisecond, 200*time.Microsecond))
	for range leastPlain {
		c.Generated(Pass{Streams: ShapeOf(1, 1), Tokens: 1, Took: 20 * time.Millisecond})
	}
	for _, replays := range []bool{false, true} {
		branches := 0
		for room := 1; room < 40; room++ {
			one := ShapeOf(1, 1)
			s := speculation{cost: &c, whole: one, streams: one, limit: longest, replays: replays, room: room, longest: room, forks: 16,
				list: []candidate{{known: 1, drafts: workload{drafts: 6, claimed: 0.7, rival: 0.6}.tree()}}}
			tree := s.choose()[0]
			tokens := 1 + tree.trunk
			for _, b := range tree.branches {
				tokens += 1 + len(b.Path)
			}
			if tokens > room {
				t.Errorf("replays %v: %d tokens where %d fit", replays, tokens, room)
			}
			branches += len(tree.branches)
		}
		if branches == 0 {
			t.Errorf("replays %v: there were no branches", replays)
		}
	}
}
