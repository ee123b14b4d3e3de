package engine

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
)

// forgetful are models that cannot go on from every position that they have seen:
// some have windows of 16 positions, of which some have layers that read the keys and values of
// others, one has keys that stand for many positions, and the others have recurrent state.
func forgetful(t *testing.T, test func(t *testing.T, path string)) {
	models(t, test, "gemma3", "gemma3n", "gemma4", "lfm2", "qwen35", "qwen3next", "mamba", "granitehybrid", "nemotron_h_moe", "rwkv7", "deepseek4")
}

// latents are models that keep one vector of a position in place of keys and values; the second chooses positions.
func latents(t *testing.T, test func(t *testing.T, path string)) {
	models(t, test, "deepseek2", "deepseek32")
}

func models(t *testing.T, test func(t *testing.T, path string), names ...string) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) { test(t, testdata.Path(t, "archs/"+name+".gguf")) })
	}
}

// A conversation is not computed again: the next turn goes on from the answer, one
// that has lost its thoughts from the prompt, and who shares a beginning with two
// others from there. All have the text that they have alone.
func TestForgetfulModelsGoOn(t *testing.T) {
	t.Parallel()
	forgetful(t, func(t *testing.T, path string) {
		probe := open(t, path, Config{})
		l := openLoop(t, path, Config{Sequences: 3, Batch: 40}, LoopConfig{})
		states := slices.ContainsFunc(l.e.kv.Layout(), func(g kvcache.Group) bool { return g.PerSequence })
		say := func(what string, prompt []int32, n, cached int) []int32 {
			t.Helper()
			_, c := submit(t, l, greedyRequest(prompt, n))
			if r := c.wait(t); r.CachedTokens != cached {
				t.Errorf("%s: %d tokens were in the cache, want %d of %d", what, r.CachedTokens, cached, len(prompt))
			}
			if want := greedy(t, probe, prompt, n); !slices.Equal(c.ids, want) {
				t.Errorf("%s: %v, alone %v", what, c.ids, want)
			}
			return slices.Concat(prompt, c.ids)
		}
		system := randomIDs(probe, 1, 150)
		question := slices.Concat(system, randomIDs(probe, 2, 50)) // 200: the last block ends at 192
		turn := say("the first", question, 90, 0)
		say("the next turn", slices.Concat(turn, randomIDs(probe, 3, 20)), 20, 289)
		say("the next without thoughts", slices.Concat(question, randomIDs(probe, 4, 20)), 20, map[bool]int{true: 192, false: 200}[states])
		if states {
			say("another question", slices.Concat(system, randomIDs(probe, 5, 50)), 20, 0)
			say("a third", slices.Concat(system, randomIDs(probe, 6, 50)), 20, 128)
		} else { // the window of the system prompt was kept while there is room
			say("another question", slices.Concat(system, randomIDs(probe, 5, 50)), 20, 150)
		}
		again := say("the same again", question, 90, map[bool]int{true: 192, false: 199}[states])
		if !slices.Equal(again, turn) {
			t.Error("the same has another answer")
		}
		// Several with a new beginning at a time: one computes it.
		fresh := randomIDs(probe, 7, 150)
		var cs []*catcher
		err := l.Between(func() error { // all of them are there before the first runs
			for i := range 3 {
				r := greedyRequest(slices.Concat(fresh, randomIDs(probe, uint64(10+i), 20)), 5)
				cs = append(cs, r.Sink.(*catcher))
				if _, err := l.Submit(r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		cached := 0
		for _, c := range cs {
			cached += c.wait(t).CachedTokens
		}
		if cached != 2*128 {
			t.Errorf("two of three found %d tokens, want two blocks each", cached)
		}
		checkBlocks(t, l)
	})
}

// A sequence alone goes on in the same way: what chat does.
func TestForgetfulSequences(t *testing.T) {
	t.Parallel()
	forgetful(t, func(t *testing.T, path string) {
		probe, e := open(t, path, Config{}), open(t, path, Config{Batch: 50, Ctx: 2048}) // room for states
		s := e.NewSequence()
		defer s.Close()
		prompt := randomIDs(e, 1, 120)
		for turn := range 6 {
			var ids []int32
			st, err := e.Generate(context.Background(), s, likeliest(prompt, 20), func(id int32) error { ids = append(ids, id); return nil })
			if err != nil {
				t.Fatal(err)
			}
			if want := greedy(t, probe, prompt, 20); !slices.Equal(ids, want) {
				t.Errorf("turn %d: %v, alone %v", turn, ids, want)
			}
			if turn > 0 && st.CachedTokens < len(prompt)-30-64 {
				t.Errorf("turn %d: %d tokens of %d were there", turn, st.CachedTokens, len(prompt))
			}
			if turn%2 == 0 { // what was said stays, or only the end of it
				prompt = slices.Concat(prompt, ids)
			}
			prompt = slices.Concat(prompt, randomIDs(e, uint64(turn+2), 10))
		}
	})
}

// Tokens that were guessed are taken back, and the logits are as if they had never
// been there.
func TestForgetfulTruncate(t *testing.T) { forgetful(t, takeBack) }
func TestLatentTruncate(t *testing.T)    { latents(t, takeBack) }

func takeBack(t *testing.T, path string) {
	e := open(t, path, Config{Ctx: 300, Sequences: 2})
	ids := randomIDs(e, 1, 130)
	want := logits(t, e, ids, []int{119, 129})
	s := e.NewSequence()
	defer s.Close()
	evaluate := func(ids []int32) []float32 {
		t.Helper()
		var got []float32
		if err := e.Eval(context.Background(), s, ids, len(ids)-1, func(_ int, logits []float32) error {
			got = slices.Clone(logits)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	evaluate(ids[:110])
	evaluate(randomIDs(e, 2, 8))
	back := s.Truncate(110)
	if back != 110 {
		t.Fatalf("8 tokens of one pass were taken back, and %d are left of 110", back)
	}
	evaluate(slices.Concat(ids[110:115], randomIDs(e, 3, 4)))
	back = s.Truncate(115)
	if back != 115 && back != 110 {
		t.Fatalf("%d are left of 115", back)
	}
	if got := evaluate(ids[back:120]); !slices.Equal(got, want[119]) {
		t.Error("after guesses that were wrong the logits are others")
	}
	// A pass that is given up leaves the state as it was.
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.Eval(gone, s, randomIDs(e, 4, 30), 30, nil); err == nil || s.Len() != 120 {
		t.Errorf("a cancelled pass: %v, %d tokens", err, s.Len())
	}
	if got := evaluate(ids[120:]); !slices.Equal(got, want[129]) {
		t.Error("after a pass that was given up the logits are others")
	}
}

func TestForgetfulSlots(t *testing.T) { forgetful(t, saveAndRestore) }
func TestLatentSlots(t *testing.T)    { latents(t, saveAndRestore) }

func saveAndRestore(t *testing.T, path string) {
	probe := open(t, path, Config{})
	l := openLoop(t, path, Config{Sequences: 2, Batch: 64}, LoopConfig{})
	r := greedyRequest(randomIDs(probe, 3, 200), 25)
	r.Slot = 1
	_, c := submit(t, l, r)
	c.wait(t)
	var file bytes.Buffer
	saved, err := l.SaveSlot(1, "", &file)
	if err != nil || saved.Tokens != 224 || saved.Bytes != int64(file.Len()) {
		t.Fatalf("saved %+v, %d bytes, %v", saved, file.Len(), err)
	}
	if n, err := l.EraseSlot(1, ""); n != 224 || err != nil {
		t.Errorf("erased %d, %v", n, err)
	}
	if all, _ := l.tree.Bytes(); all != 0 {
		t.Errorf("%d bytes are left", all)
	}
	if _, err := l.RestoreSlot(0, "", bytes.NewReader(file.Bytes()[:file.Len()-1])); err == nil {
		t.Error("a file that is cut short was restored")
	}
	if got, err := l.RestoreSlot(0, "", &file); err != nil || got != saved {
		t.Errorf("restored %+v, %v", got, err)
	}
	again := slices.Concat(r.Prompt, c.ids)
	_, d := submit(t, l, greedyRequest(again, 20))
	if u := d.wait(t); u.CachedTokens != 224 {
		t.Errorf("found %d tokens of 224", u.CachedTokens)
	}
	if want := greedy(t, probe, again, 20); !slices.Equal(d.ids, want) {
		t.Errorf("from the file %v, computed %v", d.ids, want)
	}
	checkBlocks(t, l)
}

// Many that come, make room for each other, guess, and are cancelled in the middle of
// passes: those that end have the text that they have alone.
func TestForgetfulStorm(t *testing.T) { forgetful(t, storm) }
func TestLatentStorm(t *testing.T)    { latents(t, storm) }

func storm(t *testing.T, path string) {
	const n = 20
	probe := open(t, path, Config{})
	l := openLoop(t, path, Config{Sequences: 5, Batch: 48, Ctx: 250, KVBytes: 2 * least(probe.kv.Layout(), 250)}, LoopConfig{Queue: 100})
	const workers = 6
	each := 10
	if testing.Short() { // goroutines and memory are what is looked at, not bits
		each = 4
	}
	var prompts, wants [workers][][]int32 // computed first: requests then come faster than they end
	for w := range workers {
		rng := rand.New(rand.NewPCG(uint64(w), 8))
		for range each {
			prompt := slices.Concat(randomIDs(probe, uint64(rng.IntN(2)), 200)[:rng.IntN(180)], randomIDs(probe, uint64(rng.IntN(4)), 1+rng.IntN(40)))
			prompts[w], wants[w] = append(prompts[w], prompt), append(wants[w], greedy(t, probe, prompt, n))
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	kinds := map[string]int{}
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 9))
			for i, prompt := range prompts[w] {
				want := wants[w][i]
				r := greedyRequest(prompt, n)
				r.Flow, r.Priority, r.NoCache = fmt.Sprint(w%3), rng.IntN(2), rng.IntN(6) == 0
				c := r.Sink.(*catcher)
				var k *Ticket
				ready := make(chan struct{})
				guess := rng.IntN(2) == 0
				c.on = func(got int) {
					<-ready
					if guess && len(want) > got {
						k.j.gen.Propose(slices.Concat(want[got:min(got+got%4, len(want))], []int32{1, 2}))
					}
				}
				k, err := l.Submit(r)
				close(ready)
				kind := "done"
				switch {
				case err != nil:
					kind = "refused"
				default:
					if rng.IntN(4) == 0 {
						time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
						k.Cancel()
					}
					if res := c.wait(t); res.Err != nil {
						kind = "ended"
					} else if !slices.Equal(c.ids, want) {
						t.Errorf("%+v: %v, alone %v", res, c.ids, want)
					}
				}
				mu.Lock()
				kinds[kind]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	checkBlocks(t, l)
	s := l.Status().Counts
	if kinds["done"] == 0 || (kinds["ended"] == 0 || s.Preemptions == 0 || s.CachedTokens == 0 || s.EvictedBlocks == 0) && !testing.Short() {
		t.Errorf("%v, %+v: the test does not test that", kinds, s)
	}
	t.Log(kinds, fmt.Sprintf("%+v", s))
}

// After a long prompt the next turn of a hybrid's conversation evaluates what is new: less than 2 % of it.
func TestSecondTurnOfHybrid(t *testing.T) {
	const long = 3000
	l := openLoop(t, testdata.Path(t, "archs/qwen35.gguf"), Config{Sequences: 1, Ctx: long + 500, Batch: 512}, LoopConfig{})
	prompt := randomIDs(l.e, 1, long)
	_, c := submit(t, l, greedyRequest(prompt, 20))
	c.wait(t)
	next := slices.Concat(prompt, c.ids, randomIDs(l.e, 2, 40))
	_, c = submit(t, l, greedyRequest(next, 1))
	if r := c.wait(t); 100*(len(next)-r.CachedTokens) >= 2*long {
		t.Errorf("%d of %d tokens are evaluated", len(next)-r.CachedTokens, len(next))
	}
}
