package engine

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/sched"
)

// freely lets a loop use all drafts, whatever they cost.
func freely(l *Loop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.e.timeless = true
	l.sched.Cost = sched.Cost{}
}

// wordy returns a prompt that repeats itself, so that there is much to guess from.
func wordy(e *Engine, seed uint64) []int32 {
	line := randomIDs(e, seed, 9)
	return slices.Concat(line, randomIDs(e, seed+1, 8), line, line[:5])
}

// drafters are sources of guesses: the text itself and recent ones, and records of the text that are right
// sometimes, always, or never, whatever chances they claim.
func drafters(want []int32, wrong []int32) map[string]draft.Options {
	record := func(text []int32, right float64, n int) draft.Options {
		return draft.Options{Sources: draft.All, Max: n, Record: &draft.Recording{Text: text, Right: right, Seed: 3}}
	}
	return map[string]draft.Options{
		"found": draft.Defaults, "trees": {Sources: draft.All, Max: 12, Record: &draft.Recording{Text: want, Right: 0.4, Rival: 0.6, Seed: 3}}, "good": record(want, 0.8, 16), "right": record(want, 1, 31), "bad": record(want, 0.2, 3), "malicious": record(wrong, 0.98, 8),
	}
}

// The text is the same with any drafts, alone and among others, also when memory is short.
func TestDraftsDoNotChangeAText(t *testing.T) {
	t.Parallel()
	const n = 40
	kinds := []struct {
		path   string
		kv     kvcache.Type
		memory []float64 // memory, in contexts
	}{
		{tiny, kvcache.I16, []float64{6, 2.3}}, {tiny, kvcache.Q4, []float64{6}}, {tiny, kvcache.F32, []float64{6}}, {tiny, kvcache.BF16, []float64{6}},
		{testdata.Path(t, "archs/qwen35.gguf"), kvcache.Q8, []float64{6}}, {testdata.Path(t, "archs/gemma3.gguf"), kvcache.F16, []float64{6}},
	}
	for _, kind := range kinds {
		c := Config{Ctx: 128, Batch: 24, KV: kvcache.Both(kind.kv)}
		probe := open(t, kind.path, c)
		c.Sequences, c.Batch = 6, 48
		for _, memory := range kind.memory {
			c.KVBytes = uint64(float64(least(probe.kv.Layout(), 128)) * memory)
			l := openLoop(t, kind.path, c, LoopConfig{})
			freely(l)
			var wg sync.WaitGroup
			prompt := wordy(probe, 5)
			all := variants(t, probe, prompt, n)
			if kind.kv == kvcache.I16 {
				maps.Copy(all, remembering(prompt, n))
			}
			for name, params := range all {
				want, finish := alone(t, probe, params())
				whole := slices.Concat(prompt, want)
				for kind, options := range drafters(whole, append(slices.Clone(prompt), randomIDs(probe, 9, n)...)) {
					p := params()
					p.Draft = options
					probe.timeless = true
					if got, f := alone(t, probe, p); !slices.Equal(got, want) || f != finish {
						t.Errorf("%s, %s drafts, alone: %v, %s; without %v, %s", name, kind, got, f, want, finish)
					}
					p = params()
					p.Draft = options
					sink := newCatcher()
					if _, err := l.Submit(&Request{Params: p, Priority: len(kind) % 2, Slot: -1, Sink: sink}); err != nil {
						t.Fatal(err)
					}
					wg.Go(func() {
						r := sink.said(t, name+", "+kind+" drafts", want, finish)
						if guessed, right := r.Drafted.Total(); kind == "right" && name == "greedy" && (right == 0 || right != guessed || r.Drafted[draft.Replay].Right != right) {
							t.Errorf("of %d right drafts %d were accepted", guessed, right)
						}
					})
				}
			}
			wg.Wait()
			checkBlocks(t, l)
			counts := l.Status().Counts
			if guessed, right := counts.Drafted.Total(); guessed == 0 || right == 0 || counts.Drafted[draft.NGram].Guessed+counts.Drafted[draft.Recent].Guessed == 0 {
				t.Errorf("of %d drafts %d were accepted: %v", guessed, right, counts.Drafted)
			}
			if memory < 3 && counts.Preemptions+counts.EvictedBlocks == 0 {
				t.Error("memory was never short")
			}
		}
	}
}

// If the client stops a text in the middle of a step, the tokens after that are not part of the text: the next
// turn continues from before them.
func TestATextThatIsCutGoesOn(t *testing.T) {
	path := testdata.Path(t, "archs/qwen35.gguf")
	probe := open(t, path, Config{})
	for _, record := range []draft.Recording{{Right: 1}, {Right: 0.3, Rival: 0.9}} {
		l := openLoop(t, path, Config{Sequences: 2, Batch: 64}, LoopConfig{})
		freely(l)
		prompt := randomIDs(probe, 1, 140)
		want := greedy(t, probe, prompt, 40)
		r := greedyRequest(prompt, 40)
		record.Text = slices.Concat(prompt, want)
		r.Draft = draft.Options{Sources: draft.All, Max: 7, Record: &record}
		sink := r.Sink.(*catcher)
		sink.stop = func(n int) bool { return n == 20 } // within a step of several tokens
		submit(t, l, r)
		sink.wait(t)
		next := slices.Concat(prompt, want[:20], randomIDs(probe, 2, 10))
		_, again := submit(t, l, greedyRequest(next, 10))
		if res := again.wait(t); res.CachedTokens < len(prompt) || !slices.Equal(again.ids, greedy(t, probe, next, 10)) {
			t.Errorf("%d tokens of %d were there, and it goes on with %v", res.CachedTokens, len(next), again.ids)
		}
	}
}

// Recent answers are guessed for their owner, in the namespace, and for no other: not even response times reveal
// what others were told.
func TestRecentTextsAreGuessed(t *testing.T) {
	probe := open(t, tiny, Config{})
	l := openLoop(t, tiny, Config{Sequences: 2}, LoopConfig{})
	freely(l)
	for i, step := range []struct {
		owner, namespace string
		guessed          bool
	}{
		{"", "one", false}, {"", "one", true}, {"", "two", false},
		{"ann", "", false}, {"bob", "", false}, {"ann", "", true}, {"bob", "", true}, {"", "", false}, {"ann", "one", false}, {`"`, "one", false}, {"", `"one`, false},
	} {
		r := greedyRequest(randomIDs(probe, 4, 50), 40)
		r.Owner, r.Namespace, r.Draft = step.owner, step.namespace, draft.Options{Sources: 1 << draft.Recent, Max: 16}
		_, c := submit(t, l, r)
		res := c.wait(t)
		if n := res.Drafted[draft.Recent]; (n.Right > 10) != step.guessed || !step.guessed && n.Guessed > 0 || !slices.Equal(c.ids, greedy(t, probe, r.Prompt, 40)) {
			t.Errorf("request %d, owner %q, namespace %q: %+v", i, step.owner, step.namespace, res.Drafted)
		}
	}
}
