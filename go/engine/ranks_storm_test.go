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

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
)

// A stormed is a request of a storm.
type stormed struct {
	name    string
	params  func() generate.Params
	adapted bool
	want    []int32
	finish  generate.Finish
}

// request makes the request, for a loop with an adapter.
func (s *stormed) request(a *Adapter) *Request {
	r := &Request{Params: s.params(), Slot: -1, Sink: newCatcher()}
	if s.adapted {
		r.Adapters = []ScaledAdapter{{Adapter: a, Scale: 0.75}}
	}
	return r
}

// Everything at once on several ranks: requests with grammars, drafts, adapters, contexts that are shifted or keys and values
// that age, little memory and a disk, and others that are cancelled: the texts are those of one process. The model may sleep in
// between, and be saved.
func TestStormOfRanks(t *testing.T) {
	path := nextOf(t, "glm4moe", 2)
	for _, kind := range []struct {
		name string
		c    Config
	}{{"shift", Config{Shift: true}}, {"tiers", Config{Tiers: tiersOf(t, "64:i16,*:q8_0")}}} {
		c := kind.c
		c.Ctx, c.Batch, c.MTP, c.Sequences = 128, 48, true, 6
		probe := open(t, path, c)
		file := writeAdapter(t, probe, 3, 5, "blk.0.attn_q.weight", "blk.0.attn_output.weight", "blk.1.ffn_gate_exps.weight",
			"blk.2.ffn_down_shexp.weight", "token_embd.weight", "output.weight")
		c.KVBytes = uint64(float64(least(probe.kv.Layout(), 128)) * 3)
		all := stormOf(t, path, c, file, kind.name, randomIDs(probe, 5, 70))
		for _, n := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s, %d ranks", kind.name, n), func(t *testing.T) {
				c := c
				c.Ranks, c.KVBytes = divided(t, path, n), 0
				c.KVBytes = storming(t, path, c)
				storms(t, path, c, file, all)
			})
		}
	}
}

// storming returns little memory for a rank's part of keys and values.
func storming(t *testing.T, path string, c Config) uint64 {
	t.Helper()
	f, err := openBoth(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := c.survey(f)
	if err != nil {
		t.Fatal(err)
	}
	return 3 * least(s.Layout, c.Ctx)
}

// stormOf returns requests with the texts that one process makes of each alone.
func stormOf(t *testing.T, path string, c Config, file, name string, prompt []int32) (all []*stormed) {
	t.Helper()
	const n = 36
	one := openLoop(t, path, c, LoopConfig{})
	a, err := one.OpenAdapter(file)
	if err != nil {
		t.Fatal(err)
	}
	for variant, made := range variants(t, one.e, prompt, n) {
		for _, adapted := range []bool{false, true} {
			for k, options := range []draft.Options{{Sources: 1 << draft.MTP, Max: 6}, draft.Defaults, {}} {
				s := &stormed{name: fmt.Sprint(name, ", ", variant, adapted, k), adapted: adapted, params: func() generate.Params {
					p := made()
					if p.MaxTokens < 0 { // it may not end
						p.MaxTokens = 100
					}
					p.Draft = options
					return p
				}}
				_, sink := submit(t, one, s.request(a))
				r := sink.wait(t)
				if r.Err != nil {
					t.Fatalf("%s: %v", s.name, r.Err)
				}
				for _, tok := range sink.logs {
					if !tok.Stop {
						s.want = append(s.want, tok.ID)
					}
				}
				s.finish = r.Finish
				all = append(all, s)
			}
		}
	}
	return all
}

// stormOn runs all requests at once, beside others that are cancelled, and checks their texts.
func stormOn(t *testing.T, l *Loop, all []*stormed, a *Adapter) {
	t.Helper()
	var wg sync.WaitGroup
	for _, s := range all {
		_, sink := submit(t, l, s.request(a))
		wg.Go(func() { sink.said(t, s.name, s.want, s.finish) })
	}
	for w := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 3))
			for range 8 {
				ticket, sink := submit(t, l, all[rng.IntN(len(all))].request(a))
				time.Sleep(time.Duration(rng.IntN(20000)) * time.Microsecond)
				ticket.Cancel()
				sink.wait(t)
			}
		})
	}
	wg.Wait()
}

// storms runs all requests at once on ranks, twice, and checks their texts.
func storms(t *testing.T, path string, c Config, file string, all []*stormed) {
	t.Helper()
	l := diskLoop(t, path, t.TempDir(), c)
	freely(l)
	if l.e.lead == nil || l.e.mtp == nil {
		t.Fatal("the model is not divided, or no layer drafts")
	}
	a, err := l.OpenAdapter(file)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		stormOn(t, l, all, a)
		if round == 0 {
			if err := l.Sleep(); err != nil {
				t.Fatal(err)
			}
			if err := l.Wake(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	counts := l.Status().Counts
	if counts.Drafted[draft.MTP].Guessed == 0 || counts.Preemptions+counts.EvictedBlocks == 0 {
		t.Errorf("the storm does not test that: %+v", counts)
	}
	checkBlocksSoon(t, l)
	savedOfRanks(t, l, all[0].params().Prompt)
}

// savedOfRanks saves a text and restores it, on all ranks, in other units than it was in.
func savedOfRanks(t *testing.T, l *Loop, prompt []int32) {
	t.Helper()
	whole := greedyRequest(slices.Concat(prompt[:20], prompt[:33]), 18)
	whole.Namespace = "what is wanted"
	_, want := submit(t, l, whole)
	if r := want.wait(t); r.Err != nil {
		t.Fatal(r.Err)
	}
	r := greedyRequest(whole.Prompt, 9)
	r.Slot = 1
	_, c := submit(t, l, r)
	used := c.wait(t)
	var file bytes.Buffer
	saved, err := l.SaveSlot(used.Slot, "", &file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.EraseSlot(used.Slot, ""); err != nil {
		t.Fatal(err)
	}
	other := greedyRequest(slices.Concat(prompt[33:], prompt[:60]), 9) // it takes the units, on all ranks
	other.Slot = 0
	if _, c := submit(t, l, other); c.wait(t).Err != nil {
		t.Fatal("another text has failed")
	}
	if _, err := l.RestoreSlot(1, "", bytes.NewReader(file.Bytes()[:file.Len()-9])); err == nil {
		t.Error("a file that is cut short is taken")
	}
	restored, err := l.RestoreSlot(1, "", bytes.NewReader(file.Bytes()))
	if err != nil || restored != saved {
		t.Fatalf("restored %+v, %v; saved %+v", restored, err, saved)
	}
	again := greedyRequest(slices.Concat(r.Prompt, want.ids[:9]), 9)
	_, c2 := submit(t, l, again)
	if u := c2.wait(t); !slices.Equal(c.ids, want.ids[:9]) || !slices.Equal(c2.ids, want.ids[9:]) || u.CachedTokens != saved.Tokens {
		t.Errorf("restored: %v and %v with %d cached tokens of %d, want %v", c.ids, c2.ids, u.CachedTokens, saved.Tokens, want.ids)
	}
}

// Units of all ranks are where they were, whatever their groups.
func TestStateOfRanks(t *testing.T) {
	for _, name := range []string{"gemma3", "qwen35", "deepseek2"} {
		path := testdata.Path(t, "archs/"+name+".gguf")
		e := open(t, path, Config{Ranks: divided(t, path, 3), Ctx: 300, KV: kvcache.Both(kvcache.Q8)})
		whole := open(t, path, Config{Ctx: 300, KV: kvcache.Both(kvcache.Q8)})
		prompt := randomIDs(e, 4, 200)
		if got, want := greedy(t, e, prompt, 40), greedy(t, whole, prompt, 40); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		for i := range e.kv.Layout() {
			if n, one := e.unitBytes(kvcache.Unit{Group: i}), whole.kv.Layout()[i].Bytes; n < one {
				t.Errorf("%s: the ranks have %d bytes of a unit of %d", name, n, one)
			}
		}
		c := Config{Ranks: divided(t, path, 3), Ctx: 300, Sequences: 2, KV: kvcache.Both(kvcache.Q8)}
		savedOfRanks(t, openLoop(t, path, c, LoopConfig{}), prompt)
	}
}

// A conversation goes on from the disk of rank 0 when the model was loaded again, on all ranks.
func TestDiskOfRanks(t *testing.T) {
	for _, name := range []string{"qwen35", "gemma3"} {
		path := testdata.Path(t, "archs/"+name+".gguf")
		probe := open(t, path, Config{})
		turn := randomIDs(probe, 1, 200)
		want := greedy(t, probe, turn, 20)
		dir, r := t.TempDir(), divided(t, path, 3)
		for round := range 2 {
			l := diskLoop(t, path, dir, Config{Sequences: 3, Batch: 40, Ranks: r})
			u, got := ask(t, l, greedyRequest(turn, 20))
			if !slices.Equal(got, want) {
				t.Errorf("%s, round %d: %v, want %v", name, round, got, want)
			}
			if restores := l.Status().Counts.Restores; restores != uint64(round) || round == 1 && u.CachedTokens < 190 {
				t.Errorf("%s, round %d: %d restores, %d cached tokens", name, round, restores, u.CachedTokens)
			}
			l.Close()
			l.e.Close()
		}
	}
}
