package engine

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/sample"
)

// numbers is a vocabulary in which a token prints its number and a comma.
func numbers(e *Engine) *constrain.Vocabulary {
	n := e.model.Config.NVocab
	var pieces [][]byte // as a tokenizer has them: benchmarks measure what there is beside it
	for id := range n {
		pieces = append(pieces, fmt.Appendf(nil, "%d,", id))
	}
	v := constrain.NewVocabulary(n, func(id int32) []byte { return pieces[id] }, nil)
	v.Encode = func(text string) (ids []int32) {
		for _, word := range strings.SplitAfter(text, ",") {
			if id, err := strconv.Atoi(strings.TrimSuffix(word, ",")); err == nil && id < n {
				ids = append(ids, int32(id))
			}
		}
		return ids
	}
	return v
}

// records is a grammar of numbers of which most leave no choice: 9 or 10 to 19, then 1 to
// 6 in order, over and over; brackets, 7 and 8, nest around a record.
func records(t testing.TB, e *Engine) *constrain.Automaton {
	t.Helper()
	g := &grammar.Grammar{}
	teen := grammar.Alt{grammar.Lit("9,"), grammar.Seq{grammar.Lit("1"), grammar.NewClass(grammar.Range{Lo: '0', Hi: '9'}), grammar.Lit(",")}}
	record := grammar.Seq{grammar.Alt{grammar.Ref(1), grammar.Seq{grammar.Lit("7,"), grammar.Ref(0), grammar.Lit("8,")}}, grammar.Lit("1,2,3,4,5,6,")}
	g.Add("records", grammar.Repeat{Expr: record, Min: 1, Max: -1})
	g.Add("teen", teen)
	a, err := numbers(e).Compile(g)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// silent hides that a constraint knows what comes next.
type silent struct{ constrain.Constraint }

// What a grammar leaves no choice about takes fewer passes, and the text is the same.
func TestForecastsDoNotChangeAText(t *testing.T) {
	const n = 60
	probe := open(t, tiny, Config{Ctx: 128})
	a := records(t, probe)
	params := func(seed int) generate.Params {
		p := likeliest(randomIDs(probe, uint64(seed%3), 30), n)
		p.Sampling.Temp, p.Sampling.Seed, p.Constraint = float32(seed%4), uint64(seed), a.New(false)
		return p
	}
	l := openLoop(t, tiny, Config{Sequences: 4, Batch: 40, Ctx: 128}, LoopConfig{})
	freely(l)
	var wg sync.WaitGroup
	for seed := range 8 {
		p := params(seed)
		p.Constraint = silent{p.Constraint}
		want, finish := alone(t, probe, p)
		if got, f := alone(t, probe, params(seed)); !slices.Equal(got, want) || f != finish {
			t.Errorf("seed %d: with forecasts %v, %s; without %v, %s", seed, got, f, want, finish)
		}
		c := newCatcher()
		if seed%4 == 3 { // a cancelled one in between
			c.stop = func(n int) bool { return n == 5 }
			want, finish = want[:5], generate.Stopped
		}
		if _, err := l.Submit(&Request{Params: params(seed), Slot: -1, Sink: c}); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if r := <-c.done; r.Err != nil || r.Finish != finish || !slices.Equal(c.ids, want) {
				t.Errorf("seed %d: among others %v, %+v; alone %v, %s", seed, c.ids, r, want, finish)
			}
		})
	}
	wg.Wait()
	checkBlocks(t, l)
	if s := l.Status().Counts; s.SlotPasses*2 > s.GeneratedTokens {
		t.Errorf("%d passes of sequences for %d tokens: the forecasts saved few", s.SlotPasses, s.GeneratedTokens)
	}
}

// oneOf holds a text to one of some token lists.
func oneOf(t *testing.T, e *Engine, lists ...[]int32) constrain.Constraint {
	t.Helper()
	var texts grammar.Alt
	for _, ids := range lists {
		var b strings.Builder
		for _, id := range ids {
			fmt.Fprintf(&b, "%d,", id)
		}
		texts = append(texts, grammar.Lit(b.String()))
	}
	a, err := numbers(e).Compile(&grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: texts}}})
	if err != nil {
		t.Fatal(err)
	}
	return a.New(false)
}

// variants are parameters of all kinds for a prompt.
func variants(t *testing.T, e *Engine, prompt []int32, n int) map[string]func() generate.Params {
	lists := [][]int32{randomIDs(e, 50, n), randomIDs(e, 51, n-3), randomIDs(e, 52, n), randomIDs(e, 53, n)}
	choices, numbered := oneOf(t, e, lists...), records(t, e)
	with := func(change func(p *generate.Params)) func() generate.Params {
		return func() generate.Params {
			p := likeliest(prompt, n)
			change(&p)
			return p
		}
	}
	return map[string]func() generate.Params{
		"greedy":  with(func(p *generate.Params) {}),
		"sampled": with(func(p *generate.Params) { p.Sampling.Temp, p.Sampling.Seed = 1.5, 7 }),
		"penalties, bias and logprobs": with(func(p *generate.Params) {
			p.Sampling.Temp, p.Sampling.RepeatPenalty, p.Sampling.PresencePenalty = 1, 1.3, 0.5
			p.Bias, p.TopLogprobs = []sample.Bias{{ID: 3, Value: 4}, {ID: 9, Value: -2}}, 2
		}),
		"a token that stops": with(func(p *generate.Params) {
			p.Sampling.Temp = 3
			p.Stop = func(id int32) bool { return id%16 == 5 }
		}),
		"constraint": with(func(p *generate.Params) {
			p.Sampling.Temp, p.Sampling.Seed, p.Constraint = 1, 3, choices.Fork()
		}),
		"grammar": with(func(p *generate.Params) {
			p.Sampling.Temp, p.Sampling.Seed, p.Constraint = 1, 4, numbered.New(false)
		}),
		"no limit": with(func(p *generate.Params) { p.MaxTokens = -1 }),
	}
}

// remembering are requests whose samplers remember what was chosen, or draw more than once for a token.
func remembering(prompt []int32, n int) map[string]func() generate.Params {
	with := func(change func(p *sample.Params)) func() generate.Params {
		return func() generate.Params {
			p := likeliest(prompt, n)
			p.Sampling = sample.Defaults()
			p.Sampling.Temp, p.Sampling.Seed, p.Sampling.TopK, p.Sampling.MinP = 1.2, 11, 0, 0
			change(&p.Sampling)
			return p
		}
	}
	return map[string]func() generate.Params{
		"dry, xtc and frequencies": with(func(s *sample.Params) {
			s.DryMultiplier, s.XTCProbability, s.XTCThreshold, s.FrequencyPenalty, s.DynRange = 0.9, 0.5, 0.01, 0.4, 0.5
		}),
		"mirostat 1": with(func(s *sample.Params) { s.Mirostat, s.MirostatTau = 1, 3 }),
		"mirostat 2": with(func(s *sample.Params) { s.Mirostat, s.MirostatEta = 2, 0.4 }),
		"adaptive-p": with(func(s *sample.Params) { s.AdaptiveTarget = 0.2 }),
	}
}

// alone returns what Generate makes of p.
func alone(t *testing.T, e *Engine, p generate.Params) ([]int32, generate.Finish) {
	t.Helper()
	s := e.NewSequence()
	defer s.Close()
	var ids []int32
	st, err := e.Generate(context.Background(), s, p, func(id int32) error { ids = append(ids, id); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return ids, st.Finish
}

// guesses are good up to a random length, and then are not.
func guesses(rng *rand.Rand, e *Engine, rest []int32) []int32 {
	right := min(rng.IntN(8), len(rest))
	return slices.Concat(rest[:right], randomIDs(e, rng.Uint64(), rng.IntN(6)), rest[right:])
}

// Whatever is guessed, the text is the same, token for token.
func TestGuessesDoNotChangeATextAlone(t *testing.T) {
	const n = 40
	e := open(t, tiny, Config{Batch: 24, Ctx: 128})
	prompt := randomIDs(e, 4, 50)
	all := variants(t, e, prompt, n)
	maps.Copy(all, remembering(prompt, n))
	for name, params := range all {
		want, finish := alone(t, e, params())
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 1))
			g, err := generate.New(params(), generate.Config{Vocab: e.model.Config.NVocab, Ctx: e.ctx, MaxRows: maxOut})
			if err != nil {
				t.Fatal(err)
			}
			s := e.NewSequence()
			var got []int32
			var st generate.Step
			passes := 0
			for ; st.Finish == ""; passes++ {
				items := []Item{{Seq: s, IDs: g.Pending(nil, 1+rng.IntN(e.batch))}}
				k := len(items[0].IDs)
				items[0].Rows = g.Rows(k)
				if err := e.pass(canceler{ctx: t.Context()}, items); err != nil {
					t.Fatal(err)
				}
				if rng.IntN(2) == 0 {
					g.Prepare(k)
				}
				e.heads(items, func(parts []part) error {
					st, err = g.Advance(k, parts[0].rows)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				g.Resume(s.Truncate(g.Evaluated()))
				for _, tok := range st.Tokens {
					if !tok.Stop {
						got = append(got, tok.ID)
					}
				}
				if len(got) > 0 && rng.IntN(5) > 0 {
					g.Propose(guesses(rng, e, want[min(len(got), len(want)):]))
				}
			}
			if !slices.Equal(got, want) || st.Finish != finish {
				t.Fatalf("%s, seed %d: with guesses %v, %s; without %v, %s", name, seed, got, st.Finish, want, finish)
			}
			if known := g.Known(); !slices.Equal(s.Tokens(), known[:len(known)-1]) && !slices.Equal(s.Tokens(), known) {
				t.Fatalf("%s: the sequence has %v, the text is %v", name, s.Tokens(), known)
			}
			if len(want) > 20 && passes > 4*len(want)/5+20 {
				t.Errorf("%s: %d passes for %d tokens: no guess was right", name, passes, len(want))
			}
			s.Close()
		}
	}
}

// The same in a loop, among others and where memory is short.
func TestGuessesDoNotChangeATextAmongOthers(t *testing.T) {
	const n = 40
	probe := open(t, tiny, Config{Ctx: 128})
	for _, blocks := range []int{40, 7} {
		l := openLoop(t, tiny, Config{Sequences: 5, Batch: 40, Ctx: 128, KVBytes: uint64(blocks * probe.kv.Layout()[0].Bytes)}, LoopConfig{})
		freely(l)
		var wg sync.WaitGroup
		for k := range 4 {
			prompt := randomIDs(probe, uint64(k%2), 50)
			for name, params := range variants(t, probe, prompt, n) {
				want, finish := alone(t, probe, params())
				rng := rand.New(rand.NewPCG(uint64(k), 1))
				var ticket *Ticket
				ready := make(chan struct{})
				c := newCatcher()
				c.on = func(got int) {
					<-ready
					if len(want) > got {
						ticket.j.gen.Propose(guesses(rng, l.e, want[got:]))
					}
				}
				var err error
				if ticket, err = l.Submit(&Request{Params: params(), Priority: k % 2, Slot: -1, Sink: c}); err != nil {
					t.Fatal(err)
				}
				close(ready)
				wg.Go(func() {
					r := <-c.done
					var got []int32
					for _, tok := range c.logs {
						if !tok.Stop {
							got = append(got, tok.ID)
						}
					}
					if !slices.Equal(got, want) || r.Finish != finish || r.Err != nil || r.Generated != len(c.ids) {
						t.Errorf("%s: with guesses %v, %+v; without %v, %s", name, got, r, want, finish)
					}
				})
			}
		}
		wg.Wait()
		checkBlocks(t, l)
		s := l.Status().Counts
		if s.SlotPasses*4 > s.GeneratedTokens*3 {
			t.Errorf("%d passes of sequences for %d tokens: no guess was right", s.SlotPasses, s.GeneratedTokens)
		}
		t.Logf("%d blocks: %+v", blocks, s)
	}
}

// A Sink that has enough in the middle of a step gets no more.
func TestAStepIsCutWhereTheSinkHasEnough(t *testing.T) {
	probe := open(t, tiny, Config{})
	l := openLoop(t, tiny, Config{Sequences: 2}, LoopConfig{})
	prompt := randomIDs(probe, 4, 50)
	want := greedy(t, probe, prompt, 20)
	for at := 2; at < 12; at++ {
		r := greedyRequest(prompt, 20)
		c := r.Sink.(*catcher)
		var ticket *Ticket
		ready := make(chan struct{})
		c.on = func(got int) {
			if <-ready; got == 1 {
				ticket.j.gen.Propose(want[1:])
			}
		}
		c.stop = func(n int) bool { return n == at }
		ticket, _ = submit(t, l, r)
		close(ready)
		if r := c.wait(t); r.Finish != generate.Stopped || r.Generated != at || !slices.Equal(c.ids, want[:at]) {
			t.Errorf("stopped at %d: %+v, %v", at, r, c.ids)
		}
	}
	checkBlocks(t, l)
}

// A wild constraint panics when it is asked for the n-th time.
type wild struct {
	constrain.Constraint
	left int
}

func (w *wild) Mask(next constrain.Set) {
	if w.left--; w.left == 0 {
		panic("no mask")
	}
	for i := range next {
		next[i] = ^uint64(0)
	}
}

func (w *wild) Accept(int32) bool { return true }
func (w *wild) Rollback(int)      {}

// Constraints work while passes run; a panic in one ends its request alone.
func TestConstraintsInALoop(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 4, Batch: 32}, LoopConfig{OnPanic: func(*PanicError) {}})
	probe := open(t, tiny, Config{})
	prompt := randomIDs(l.e, 4, 40)
	lists := [][]int32{randomIDs(l.e, 50, 9), randomIDs(l.e, 51, 5), randomIDs(l.e, 52, 12)}
	choices := oneOf(t, l.e, lists...)
	want := greedy(t, probe, prompt, 30)
	for k := range 6 {
		bad := greedyRequest(prompt, 30)
		bad.Constraint = &wild{left: 1 + k*3}
		held := greedyRequest(prompt, 30)
		held.Sampling.Temp, held.Sampling.Seed, held.Constraint = 2, uint64(k), choices.Fork()
		_, a := submit(t, l, bad)
		_, b := submit(t, l, held)
		_, c := submit(t, l, greedyRequest(prompt, 30))
		if r := a.wait(t); r.Err == nil || !strings.Contains(r.Err.Error(), "no mask") || !slices.Equal(a.ids, want[:k*3]) {
			t.Errorf("the wild one: %+v, %v", r, a.ids)
		}
		if r := b.wait(t); r.Finish != generate.Stopped || !slices.ContainsFunc(lists, func(l []int32) bool { return slices.Equal(l, b.ids) }) {
			t.Errorf("one of %v: %+v, %v", lists, r, b.ids)
		}
		if r := c.wait(t); r.Err != nil || !slices.Equal(c.ids, want) {
			t.Errorf("beside them: %+v, %v", r, c.ids)
		}
	}
	checkBlocks(t, l)
}

// A watched constraint counts its masks, and those that a step waits for.
type watched struct {
	constrain.Constraint
	masks, late int
}

func (w *watched) Mask(next constrain.Set) {
	w.masks++
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); strings.HasSuffix(f.Function, ".Advance") {
			w.late++
		}
	}
	w.Constraint.Mask(next)
}

func (w *watched) Forecast(dst []int32) []int32 {
	return w.Constraint.(constrain.Forecaster).Forecast(dst)
}

// Of drafts that are not in a pass no masks are computed.
func TestMasksAreForThePassAlone(t *testing.T) {
	e := open(t, tiny, Config{})
	list := randomIDs(e, 50, 9)
	w := &watched{Constraint: oneOf(t, e, list)}
	p := likeliest(randomIDs(e, 4, 10), 20)
	p.Constraint = w
	g, err := generate.New(p, generate.Config{Vocab: e.model.Config.NVocab, Ctx: 64, MaxRows: maxOut})
	if err != nil {
		t.Fatal(err)
	}
	g.Propose(list[:6])
	for _, c := range []struct{ drafts, masks int }{{2, 3}, {2, 3}, {4, 3 + 5}, {0, 3 + 5}} {
		if g.Prepare(len(p.Prompt) + c.drafts); w.masks != c.masks {
			t.Errorf("%d masks in all after %d drafts, want %d", w.masks, c.drafts, c.masks)
		}
	}
}

// A loop has all masks computed beside its passes, those of tokens after drafts too: no step computes one.
func TestMasksAreComputedBesidePasses(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 2, Batch: 32}, LoopConfig{})
	freely(l)
	lists := [][]int32{randomIDs(l.e, 50, 9), randomIDs(l.e, 51, 5)}
	w := &watched{Constraint: oneOf(t, l.e, lists...)}
	r := greedyRequest(randomIDs(l.e, 4, 40), 30)
	r.Constraint = w
	_, c := submit(t, l, r)
	if r := c.wait(t); r.Finish != generate.Stopped || w.masks < 2 || w.late > 0 {
		t.Errorf("%+v, of %d masks %d were computed after a pass", r, w.masks, w.late)
	}
	n, forced := l.Status().Counts, l.Status().Counts.Drafted[draft.Forced]
	if all, _ := n.Drafted.Total(); n.Drafts == 0 || forced.Guessed < n.Drafts || forced.Right != forced.Guessed || all != forced.Guessed {
		t.Errorf("counts %+v", n)
	}
}
