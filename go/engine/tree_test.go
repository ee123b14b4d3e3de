package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/sched"
)

// randomTree returns guesses in any tree, of which some are what comes. Their chances say nothing, some are there twice, and some are no tokens.
func randomTree(rng *rand.Rand, e *Engine, rest []int32) (list []draft.Guess) {
	var depth []int
	for i := range 1 + rng.IntN(4)*rng.IntN(8) {
		g := draft.Guess{Chance: 0.03 + 0.9*rng.Float64(), Source: draft.NGram}
		if rng.IntN(2) == 0 {
			g.Back = rng.IntN(i + 1)
		}
		at := 0
		if b := i - 1 - g.Back; b >= 0 {
			at = depth[b] + 1
		}
		g.ID = randomIDs(e, rng.Uint64(), 1)[0]
		switch n := rng.IntN(50); {
		case n < 20 && at < len(rest):
			g.ID = rest[at]
		case n == 49:
			g.ID = int32(e.model.Config.NVocab) - 2 + rng.Int32N(4)
		case n == 48:
			g.ID = -1
		}
		list, depth = append(list, g), append(depth, at)
	}
	return list
}

// treeKinds are models with all kinds of state.
func treeKinds(t *testing.T) []struct {
	path string
	c    Config
} {
	arch := func(name string) string { return testdata.Path(t, "archs/"+name+".gguf") }
	return []struct {
		path string
		c    Config
	}{
		{tiny, Config{KV: kvcache.Both(kvcache.I16)}}, {tiny, Config{KV: kvcache.Both(kvcache.Q4)}}, {arch("gemma3n"), Config{KV: kvcache.Both(kvcache.F16)}},
		{arch("deepseek2"), Config{}}, {arch("deepseek4"), Config{}}, {arch("qwen35"), Config{KV: kvcache.Both(kvcache.Q8)}}, {arch("rwkv7"), Config{}},
		{nextOf(t, "glm4moe", 2), Config{MTP: true, Tiers: tiersOf(t, "64:i16,*:q8_0")}}, {nextOf(t, "glm4moe", 2), Config{MTP: true, Shift: true}},
		{nextOf(t, "qwen35", 3), Config{MTP: true}}, {arch("t5"), Config{}},
	}
}

// Whatever tree of guesses is verified, the text is the same, token for token, and the sequence goes on where it should.
func TestTreesDoNotChangeATextAlone(t *testing.T) {
	t.Parallel()
	const n = 40
	for k, kind := range treeKinds(t) {
		c := kind.c
		c.Batch, c.Ctx = 40, 250 // with memory for branches
		e := open(t, kind.path, c)
		if len(e.model.Config.Encoder) > 0 {
			continue // its passes are Generate's
		}
		prompt := randomIDs(e, 4, 50)
		passes, branched, adopted := 0, 0, 0
		for name, params := range variants(t, e, prompt, n) {
			if name == "no limit" && c.Shift {
				continue // it would not end
			}
			want, finish := alone(t, e, params())
			for seed := range uint64(3) {
				rng := rand.New(rand.NewPCG(seed, uint64(k)))
				g, err := e.generation(params(), nil)
				if err != nil {
					t.Fatal(err)
				}
				s := e.NewSequence()
				var got []int32
				var st generate.Step
				for st.Finish == "" {
					if g.Shift.Due(s.Len()) {
						shiftOne(t, s, g)
					}
					room := g.Shift.Room(s.Len(), e.kv.Layout().Room(s.Len(), e.batch))
					known, trunk, forks := len(g.Known())-g.Evaluated(), 0, []sched.Branch(nil)
					if known < room {
						trunk, forks = planOne(t, e, g, rng)
						trunk, forks = min(trunk, room-known), generate.CutBranches(forks, room-known)
					}
					items := []Item{{Seq: s, IDs: g.Pending(nil, min(known+trunk, room)), Branches: branches(g.Split(forks))}}
					k := len(items[0].IDs)
					items[0].Rows = g.Rows(k)
					if err := e.pass(canceler{ctx: t.Context()}, items); err != nil {
						t.Fatal(err)
					}
					g.KeepBranches(len(items[0].Branches))
					if rng.IntN(2) == 0 {
						g.Prepare(k)
					}
					branched += len(items[0].Branches)
					passes++
					e.heads(items, func(parts []part) error {
						st, err = g.Advance(k, parts[0].rows)
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
					if e.mtp != nil {
						e.mtp.keep(items, []*generate.Generation{g}, []*mtpText{nil})
					}
					if g.Taken() > 0 {
						adopted++
					}
					items[0].adopt(g.Taken())
					s.settle(g)
					for _, tok := range st.Tokens {
						if !tok.Stop {
							got = append(got, tok.ID)
						}
					}
					if len(got) > 0 && st.Finish == "" && rng.IntN(6) > 0 {
						g.SetGuesses(randomTree(rng, e, want[min(len(got), len(want)):]))
					}
				}
				if !slices.Equal(got, want) || st.Finish != finish {
					t.Fatalf("%s, %s, seed %d: with trees %v, %s; without %v, %s", kind.path, name, seed, got, st.Finish, want, finish)
				}
				if known := g.Known(); !c.Shift && s.Len() > 0 && !slices.Equal(s.Tokens(), known[:s.Len()]) {
					t.Fatalf("%s, %s: the sequence has %v, the text is %v", kind.path, name, s.Tokens(), known)
				}
				s.Close()
			}
		}
		e.tree.Clear()
		if used := e.kv.Used(); used > 0 {
			t.Errorf("%s: %d bytes are never given back", kind.path, used)
		}
		t.Logf("%s: %d passes, %d branches, %d of them right", kind.path, passes, branched, adopted)
		if branched < 30 || adopted < 2 {
			t.Errorf("%s: %d branches, %d of them right: the test does not test that", kind.path, branched, adopted)
		}
	}
}

// The same in a loop: among others, with memory that is short, and where some are cancelled.
func TestTreesDoNotChangeATextAmongOthers(t *testing.T) {
	t.Parallel()
	const n = 36
	for _, kind := range treeKinds(t) {
		for _, memory := range []float64{6, 2.3} {
			if memory < 3 && kind.path != tiny && !testing.Short() {
				continue
			}
			c := kind.c
			c.Ctx, c.Batch = 128, 24
			probe := open(t, kind.path, c)
			c.Sequences, c.Batch = 6, 48
			c.KVBytes = uint64(float64(least(probe.kv.Layout(), 128)) * memory)
			l := openLoop(t, kind.path, c, LoopConfig{})
			freely(l)
			var wg sync.WaitGroup
			pause := rand.New(rand.NewPCG(1, 2))
			for k := range 2 {
				prompt := randomIDs(probe, uint64(k), 50)
				for name, params := range variants(t, probe, prompt, n) {
					if name == "no limit" && c.Shift {
						continue
					}
					want, finish := alone(t, probe, params())
					sink, ready := newCatcher(), make(chan struct{})
					var ticket *Ticket
					rng := rand.New(rand.NewPCG(uint64(k), 1))
					sink.on = func(got int) {
						<-ready
						if len(want) > got {
							ticket.j.gen.SetGuesses(randomTree(rng, l.e, want[got:]))
						}
					}
					p := params()
					if k == 1 {
						p.Draft = draft.Defaults
					}
					if k == 1 && len(want) > 17 { // the client has enough in the middle of a step
						sink.stop = func(n int) bool { return n == 17 }
						want, finish = want[:17], generate.Stopped
					}
					var err error
					if ticket, err = l.Submit(&Request{Params: p, Priority: k, Slot: -1, Sink: sink}); err != nil {
						t.Fatal(err)
					}
					close(ready)
					cancelled := greedyRequest(prompt, n)
					cancelled.Draft = draft.Options{Sources: draft.All, Max: 8, Record: &draft.Recording{Text: slices.Concat(prompt, want), Right: 0.4, Rival: 0.5}}
					gone, c := submit(t, l, cancelled)
					time.Sleep(time.Duration(pause.IntN(2000)) * time.Microsecond)
					gone.Cancel()
					wg.Go(func() {
						sink.said(t, fmt.Sprintf("%s, %s, %.1f contexts", kind.path, name, memory), want, finish)
						c.wait(t)
					})
				}
			}
			wg.Wait()
			checkBlocks(t, l)
			if guessed, right := l.Status().Counts.Drafted.Total(); guessed == 0 || right == 0 {
				t.Errorf("%s: of %d drafts %d were accepted", kind.path, guessed, right)
			}
		}
	}
}

// Where the first guess is wrong as often as not, and the second is right then, a pass is more tokens than guesses that follow one
// another would make it: alone, and in a loop.
func TestSecondGuessesAreVerified(t *testing.T) {
	const n = 100
	for _, path := range []string{tiny, testdata.Path(t, "archs/qwen35.gguf")} {
		e := open(t, path, Config{Ctx: 200})
		e.timeless = true
		prompt := randomIDs(e, 4, 50)
		want := greedy(t, e, prompt, n)
		p := likeliest(prompt, n)
		p.Draft = draft.Options{Sources: draft.All, Max: 4, Record: &draft.Recording{Text: slices.Concat(prompt, want), Right: 0.49, Rival: 0.96}}
		s := e.NewSequence()
		st, err := e.Generate(t.Context(), s, p, func(int32) error { return nil })
		if right := st.Drafted[draft.Replay].Right; err != nil || st.Passes > n*11/20 || right < n*9/20 || !slices.Equal(s.Tokens()[len(prompt):], want[:n-1]) {
			t.Errorf("%s: %+v, %v, %v; want %v", path, st, err, s.Tokens(), want)
		}
		s.Close()
		l := openLoop(t, path, Config{Ctx: 200, Sequences: 2}, LoopConfig{})
		freely(l)
		_, c := submit(t, l, &Request{Params: p, Slot: -1, Sink: newCatcher()})
		if r := c.wait(t); r.Drafted[draft.Replay].Right < n*9/20 || !slices.Equal(c.ids, want) || l.Status().Counts.SlotPasses > n*11/20 {
			t.Errorf("%s: %+v, %v; want %v", path, r, c.ids, want)
		}
		checkBlocks(t, l)
	}
}

// A branch that there is no memory for is left out, and nothing else changes.
func TestBranchesWithoutMemory(t *testing.T) {
	probe := open(t, tiny, Config{})
	prompt := randomIDs(probe, 4, 70)
	want := greedy(t, probe, prompt, 50)
	block := probe.kv.Layout()[0].Bytes
	l := openLoop(t, tiny, Config{Sequences: 1, Ctx: 128, KVBytes: uint64(3 * block)}, LoopConfig{})
	freely(l)
	r := greedyRequest(prompt, 50)
	r.Draft = draft.Options{Sources: draft.All, Max: 12, Record: &draft.Recording{Text: slices.Concat(prompt, want), Right: 0.3, Rival: 0.8}}
	_, c := submit(t, l, r)
	if res := c.wait(t); res.Err != nil || !slices.Equal(c.ids, want) || res.Preempted > 0 {
		t.Errorf("%+v, %v; want %v", res, c.ids, want)
	}
	checkBlocks(t, l)
}

// shiftOne shifts a sequence that is due.
func shiftOne(t *testing.T, s *Sequence, g *generate.Generation) {
	move, err := s.beginShift(g.Shift, s.space)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.e.device.inTurn(func() error {
		s.e.mover.Move(s.e.device.pool, s.e.kv, move, s.Len()-g.Shift.By)
		return nil
	})
	s.endShift(g, move)
}

// planOne returns the drafts of the next pass of a text alone, if passes of any size take as long.
func planOne(t *testing.T, e *Engine, g *generate.Generation, rng *rand.Rand) (trunk int, branches []sched.Branch) {
	s := sched.New(sched.Config{
		Running: 1, Batch: len(g.Known()) - g.Evaluated() + rng.IntN(e.batch), Memory: anyMemory{}, Alone: true,
		Branches: rng.IntN(maxBranches + 1), Replays: e.kv.Layout().Recurrent(),
	})
	for _, n := range []int{1, 4, 4, 256} {
		s.Cost.Observe(sched.Shape{Tokens: n, Rows: n}, time.Second)
		s.Cost.Generated(sched.Pass{Streams: sched.ShapeOf(0, 1), Tokens: 1, Took: time.Second})
	}
	if _, err := s.Add(sched.Request{ID: 1, Prompt: 1, MaxTokens: 1000}, 0); err != nil {
		t.Fatal(err)
	}
	s.Admit(0, 1, func(uint64) sched.Prefix { return sched.Prefix{} })
	s.Sampled(1, len(g.Known())-1, g.Evaluated())
	s.Shifted(1, g.Dropped())
	s.Drafted(1, g.Drafts(1+rng.IntN(len(e.logits))))
	it := s.Next(0, 1)[0]
	return it.Draft, it.Branches
}
