package engine

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/sample"
)

// A draft model, good, bad, with recurrent state, or without memory, changes no text, alone and among others. The
// model as its own draft model is always right in greedy decoding.
func TestDraftModels(t *testing.T) {
	t.Parallel()
	const n = 30
	for _, kind := range []struct {
		name, path string
		config     Config
	}{
		{"itself", tiny, Config{Ctx: 128, Sequences: 4}},
		{"another", testdata.Path(t, "archs/llama.gguf"), Config{Ctx: 128, Sequences: 4}},
		{"recurrent", testdata.Path(t, "archs/qwen35.gguf"), Config{Ctx: 128, Sequences: 4}},
		{"short", tiny, Config{Ctx: 64, Sequences: 4}},
		{"small batch", tiny, Config{Ctx: 128, Sequences: 4, Batch: 16}},
		{"without memory", tiny, Config{Ctx: 128, Sequences: 4, Shared: true, KVBytes: 1 << 20}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			d := device(t, 1)
			kind.config.Device = d
			e := open(t, tiny, Config{Ctx: 128, Device: d, Batch: 32})
			if kind.config.KVBytes > 0 {
				kind.config.KVBytes = least(e.kv.Layout(), 128)
			}
			small := open(t, kind.path, kind.config)
			c := Config{Ctx: 128, Device: d, Sequences: 4, Batch: 48, KV: kvcache.Both(kvcache.I16)}
			l := openLoop(t, tiny, c, LoopConfig{})
			probe := open(t, tiny, Config{Ctx: 128})
			for _, of := range []*Engine{e, l.e} {
				if err := of.DraftWith(small, func(err error) { t.Error(err) }); err != nil {
					t.Fatal(err)
				}
				if of == l.e { // one of the two at a time has the draft model, in turn
					break
				}
				of.timeless, small.timeless = true, true
				for name, params := range variants(t, probe, randomIDs(probe, 4, 40), n) {
					p := params()
					p.Draft = draft.Options{Sources: 1 << draft.Model, Max: 6}
					want, finish := alone(t, probe, params())
					if got, f := alone(t, of, p); !slices.Equal(got, want) || f != finish {
						t.Errorf("%s, alone: %v, %s; without %v, %s", name, got, f, want, finish)
					}
				}
			}
			freely(l)
			var wg sync.WaitGroup
			for seed := range uint64(2) {
				for name, params := range variants(t, probe, randomIDs(probe, 4+seed, 40), n) {
					p, sink := params(), newCatcher()
					p.Draft = draft.Options{Sources: 1 << draft.Model, Max: 6}
					want, finish := alone(t, probe, params())
					if _, err := l.Submit(&Request{Params: p, Slot: -1, Sink: sink}); err != nil {
						t.Fatal(err)
					}
					wg.Go(func() {
						r := sink.said(t, name, want, finish)
						if all := r.Drafted[draft.Model]; kind.name == "itself" && name == "greedy" && (all.Guessed == 0 || 4*all.Right < 3*all.Guessed) { // the others are second guesses
							t.Errorf("of %d drafts by the model itself %d were accepted", all.Guessed, all.Right)
						}
					})
				}
			}
			wg.Wait()
			checkBlocks(t, l)
			eventually(t, func() (none bool) { // after the last result the loop has one more turn
				err := l.Between(func() error {
					all, idle := small.tree.Bytes()
					none = all == idle && small.kv.Available() == small.kv.Limit()
					return nil
				})
				return err != nil || none
			})
		})
	}
}

// A draft model that fails ends no request. It pauses, and then drafts again.
func TestDraftModelFails(t *testing.T) {
	d, path := device(t, 1), copyOf(t, tiny)
	c := Config{Ctx: 128, Device: d, Sequences: 4}
	l := openLoop(t, tiny, c, LoopConfig{})
	freely(l)
	c.Residency = model.Mapped
	small := open(t, path, c)
	var why []error
	if err := l.e.DraftWith(small, func(err error) { why = append(why, err) }); err != nil {
		t.Fatal(err)
	}
	small.timeless = true
	prompt := randomIDs(l.e, 5, 20)
	want := greedy(t, open(t, tiny, Config{}), prompt, 12)
	ask := func(failures int, drafts bool) {
		t.Helper()
		var all []*catcher
		for i := range 3 {
			r := greedyRequest(prompt, 12)
			if i > 0 {
				r.Draft = draft.Options{Sources: 1 << draft.Model, Max: 6}
			}
			_, c := submit(t, l, r)
			all = append(all, c)
		}
		var of draft.Counts
		for _, c := range all {
			r := c.wait(t)
			if r.Err != nil || !slices.Equal(c.ids, want) {
				t.Errorf("%v, %+v, want %v", c.ids, r, want)
			}
			of = of.Plus(r.Usage.Drafted)
		}
		_ = l.Between(func() error {
			if n, _ := of.Total(); len(why) != failures || n > 0 != drafts || l.e.drafts.off.After(time.Now()) == drafts {
				t.Errorf("failures %v, %d drafts, off until %v", why, n, l.e.drafts.off)
			}
			return nil
		})
	}
	ask(0, true)
	runner := small.runner
	_ = l.Between(func() error { small.runner = nil; return nil })
	ask(1, false)
	ask(1, false)
	again := func() error { l.e.drafts.off = time.Time{}; return nil }
	_ = l.Between(func() error { small.runner = runner; return again() })
	ask(1, true)
	cut(t, path)
	ask(2, false)
	_ = l.Between(again)
	ask(3, false)
	if !errors.Is(why[1], ErrDamaged) || l.e.drafts.pause != 2*leastPause {
		t.Errorf("%v, off for %v", why[1], l.e.drafts.pause)
	}
}

// A text that the draft model cannot hold, for lack of memory or of a token, does not affect drafts for other
// texts. With recurrent state, a text alone in the pool gets as many drafts as allowed.
func TestDraftModelLosesOneText(t *testing.T) {
	e := open(t, tiny, Config{Ctx: 128})
	small := open(t, testdata.Path(t, "archs/qwen35.gguf"), Config{Ctx: 128, Device: e.device, Sequences: 2, Shared: true, KVBytes: 1 << 26})
	if err := e.DraftWith(small, func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	small.timeless = true
	text := func(n int, last ...int32) *modelText {
		g, err := generate.New(generate.Params{Prompt: append(randomIDs(small, uint64(n), n), last...), MaxTokens: 40, Sampling: sample.Params{RepeatPenalty: 1}, Draft: draft.Options{Sources: 1 << draft.Model, Max: 4}}, generate.Config{Vocab: small.model.Config.NVocab, Ctx: 128, MaxRows: maxOut})
		if err != nil {
			t.Fatal(err)
		}
		g.Speculate(e.library, "")
		return e.drafts.text(g, e.library, "")
	}
	free := func(int) time.Duration { return 0 }
	short, other := text(8), text(12, int32(small.model.Config.NVocab)) // a token that the small model lacks
	if e.drafts.draft([]*modelText{other, short}, time.Hour, free); !other.Lost || other.seq != nil || short.Lost || len(short.Found()) == 0 {
		t.Errorf("without a token: lost %v, and the other %v with %d guesses", other.Lost, short.Lost, len(short.Found()))
	}
	short.drop()
	long := text(40)
	if err := small.kv.Resize(small.kv.Layout().Alone(20, 20)); err != nil {
		t.Fatal(err)
	}
	short = text(8)
	short.attach(small)
	for range 4 {
		if err := e.drafts.step([]*modelText{short}); err != nil || short.Lost {
			t.Fatalf("alone, after %d guesses: lost %v, %v", len(short.Found()), short.Lost, err)
		}
	}
	short.work.Close()
	if e.drafts.draft([]*modelText{long, short}, time.Hour, free); short.Lost && long.Lost {
		t.Error("two texts were lost where one is too much")
	}
	for _, text := range []*modelText{short, long} {
		text.drop()
	}
}
