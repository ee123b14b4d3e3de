package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/measure"
	"github.com/quern-llm/quern/go/sample"
)

// Speculation says what drafts are worth: texts are generated without drafts, then again with drafts that are right with
// each of these chances, and with those of a layer of the model that predicts further tokens, where it has one.
type Speculation struct {
	Right   []Chances
	Streams []int // texts at a time
}

// Chances are those of drafts to be right.
type Chances struct {
	Right float64
	Rival float64 // of a second draft for each of the next tokens where the first is wrong; 0: there is none
}

// A SpeculationResult is the speed of some streams with drafts beside that without.
type SpeculationResult struct {
	Result
	Streams  int     `json:"streams"`
	From     string  `json:"from"`      // what drafts: see draft.Source
	Right    float64 `json:"right"`     // chance of a draft; of a model's own layer what it was
	Rival    float64 `json:"rival"`     // chance of a second one where the first is wrong; 0: there is none
	PlainMS  float64 `json:"plain_ms"`  // a token of a stream takes without drafts
	DraftMS  float64 `json:"draft_ms"`  // and with them
	SpeedUp  float64 `json:"speed_up"`  // the median of rounds, in each of which both were measured
	Drafts   float64 `json:"drafts"`    // in a step of a stream, on average
	Accepted float64 `json:"accepted"`  // of these
	Bound    float64 `json:"bound"`     // the speed-up that passes as measured allow at best
	BestNum  int     `json:"best_num"`  // of drafts, for that
	Fraction float64 `json:"of_bound"`  // of the bound that was reached
	PassesMS []int64 `json:"passes_ns"` // nanoseconds of the passes of the streams' tokens with 0, 1, 2 ... drafts each
}

func speculationTable() table[SpeculationResult] {
	type col = column[SpeculationResult]
	float := func(name string, width int, f func(r *SpeculationResult) float64) col {
		return col{name, width, false, func(r *SpeculationResult) string { return fmt.Sprintf("%.2f", f(r)) }}
	}
	return table[SpeculationResult]{[]col{
		{"model", 30, true, func(r *SpeculationResult) string { return r.ModelType }},
		{"threads", 7, false, func(r *SpeculationResult) string { return fmt.Sprint(r.Threads) }},
		{"streams", 7, false, func(r *SpeculationResult) string { return fmt.Sprint(r.Streams) }},
		{"right", 9, false, func(r *SpeculationResult) string {
			if r.From == draft.MTP.String() {
				return fmt.Sprintf("%s %.2f", r.From, r.Right)
			}
			if r.Rival > 0 {
				return fmt.Sprintf("%.2f+%.2f", r.Right, r.Rival)
			}
			return fmt.Sprintf("%.2f", r.Right)
		}},
		float("ms/token", 9, func(r *SpeculationResult) float64 { return r.PlainMS }),
		float("with drafts", 11, func(r *SpeculationResult) float64 { return r.DraftMS }),
		float("speed-up", 8, func(r *SpeculationResult) float64 { return r.SpeedUp }),
		float("drafts", 6, func(r *SpeculationResult) float64 { return r.Drafts }),
		float("accepted", 8, func(r *SpeculationResult) float64 { return r.Accepted }),
		float("bound", 6, func(r *SpeculationResult) float64 { return r.Bound }),
		{"of it", 6, false, func(r *SpeculationResult) string { return fmt.Sprintf("%.0f %%", 100*r.Fraction) }},
	}, func(r *SpeculationResult) string { return r.footer() }}
}

// speculate measures drafts with a loaded model.
func (b *run) speculate(ctx context.Context, eng *engine.Engine, s Setup, c Case, info about, vocab int) error {
	for _, streams := range b.plan.Speculation.Streams {
		passes, err := b.passes(ctx, eng, c.Prompt+c.Gen/2, streams, vocab)
		if err != nil {
			return err
		}
		loop, err := engine.NewLoop(eng, engine.LoopConfig{Queue: streams})
		if err != nil {
			return err
		}
		err = b.streams(ctx, loop, s, c, info, streams, vocab, passes, eng.Model().Drafts())
		loop.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// mostDrafts are as many of a stream as the bound looks at.
const mostDrafts = 16

// passes returns the median times of passes of 0, 1, 2 ... drafts for each stream after so many tokens.
func (b *run) passes(ctx context.Context, eng *engine.Engine, depth, streams, vocab int) (list []int64, err error) {
	seq := eng.NewSequence()
	defer seq.Close()
	if err := b.evaluate(ctx, eng, seq, depth, 0, eng.Batch(), vocab); err != nil {
		return nil, err
	}
	for n := streams; len(list) <= mostDrafts && n <= eng.Batch() && depth+n <= eng.Ctx(); n += streams {
		var took []uint64
		for range b.plan.Repeats + 1 { // the first warms up
			start := time.Now()
			err := eng.Eval(ctx, seq, b.tokens(n, vocab), 0, func(int, []float32) error { return nil })
			if err != nil {
				return nil, err
			}
			took = append(took, uint64(time.Since(start)))
			seq.Truncate(depth)
			if missing := depth - seq.Len(); missing > 0 { // recurrent state: from the beginning
				if err := b.evaluate(ctx, eng, seq, missing, 0, eng.Batch(), vocab); err != nil {
					return nil, err
				}
			}
		}
		list = append(list, int64(measure.Median(took[1:])))
	}
	return list, nil
}

// streams measures so many at a time: in each round without drafts, then with those of each chance, and with the model's own.
func (b *run) streams(ctx context.Context, loop *engine.Loop, s Setup, c Case, info about, n, vocab int, passes []int64, own bool) error {
	prompts := make([][]int32, n)
	for i := range prompts {
		prompts[i] = b.tokens(c.Prompt, vocab)
	}
	texts, _, err := together(ctx, loop, prompts, c.Gen, nil) // also warms up
	if err != nil {
		return err
	}
	var results []*SpeculationResult
	for _, p := range b.plan.Speculation.Right {
		results = append(results, &SpeculationResult{Result: *b.blank(s, c, info), Streams: n, From: draft.Replay.String(), Right: p.Right, Rival: p.Rival, PassesMS: passes})
	}
	if own {
		results = append(results, &SpeculationResult{Result: *b.blank(s, c, info), Streams: n, From: draft.MTP.String(), PassesMS: passes})
	}
	ups, plains, drafted := make([][]float64, len(results)), []float64(nil), make([][]float64, len(results))
	for round := range b.plan.Repeats {
		_, plain, err := together(ctx, loop, prompts, c.Gen, nil)
		if err != nil {
			return err
		}
		plains = append(plains, plain.each)
		for i, r := range results {
			_, with, err := together(ctx, loop, prompts, c.Gen, func(k int) draft.Options {
				if r.From == draft.MTP.String() {
					return draft.Options{Max: mostDrafts, Sources: 1 << draft.MTP}
				}
				record := &draft.Recording{Text: texts[k], Right: r.Right, Rival: r.Rival, Seed: uint64(1000*round + k)}
				return draft.Options{Max: mostDrafts, Sources: draft.All, Record: record}
			})
			if err != nil {
				return err
			}
			if !slices.EqualFunc(texts, with.texts, slices.Equal) {
				return errors.New("with drafts the text is another: please report this")
			}
			ups[i], drafted[i] = append(ups[i], plain.each/with.each), append(drafted[i], with.each)
			r.Drafts += with.drafts / float64(b.plan.Repeats)
			r.Accepted += with.accepted / float64(b.plan.Repeats)
			r.sample(uint64(with.each * float64(c.Gen)))
		}
	}
	for i, r := range results {
		r.finish(nil, info.cost)
		r.PlainMS, r.DraftMS, r.SpeedUp = middle(plains)/1e6, middle(drafted[i])/1e6, middle(ups[i])
		if r.From == draft.MTP.String() {
			r.Right = r.Accepted / max(r.Drafts, 1e-9)
		}
		r.Bound, r.BestNum = bound(passes, r.Right, r.Rival)
		r.Fraction = r.SpeedUp / r.Bound
		if err := b.drafts.row(r); err != nil {
			return err
		}
	}
	return nil
}

func middle(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// bound returns the speed-up of the best number of drafts, each right with a chance where those before it are; and of second ones for the
// first tokens, each of which takes a token for every one before it as well.
func bound(passes []int64, right, rival float64) (best float64, num int) {
	best = 1
	tokens, reach := 1.0, 1.0
	for n := range passes {
		if n > 0 {
			reach *= right
			tokens += reach
		}
		more, before := tokens, 1.0
		for taken, depth := n, 0; taken < len(passes); depth++ {
			if up := more * float64(passes[0]) / float64(passes[taken]); up > best {
				best, num = up, n+depth
			}
			if rival == 0 || depth == n {
				break
			}
			more += before * (1 - right) * rival
			before *= right
			taken += depth + 2
		}
	}
	return best, num
}

// A speed is that of texts that are generated together.
type speed struct {
	texts            [][]int32
	each             float64 // nanoseconds of a token of a stream, while all of them run
	drafts, accepted float64 // in a step
}

// together generates texts from prompts, and returns them and how fast that was.
func together(ctx context.Context, loop *engine.Loop, prompts [][]int32, gen int, drafts func(k int) draft.Options) ([][]int32, speed, error) {
	likeliest := sample.Defaults()
	likeliest.Temp = 0
	before := loop.Status().Counts
	sinks := make([]*recorder, len(prompts))
	var tickets []*engine.Ticket
	for k, prompt := range prompts {
		sinks[k] = &recorder{text: slices.Clone(prompt), end: make(chan error, 1)}
		r := &engine.Request{
			Params:  engine.Params{Prompt: prompt, MaxTokens: gen, Sampling: likeliest, TopLogprobs: -1},
			NoCache: true, Slot: -1, Flow: fmt.Sprint(k), Sink: sinks[k],
		}
		if drafts != nil {
			r.Draft = drafts(k)
		}
		t, err := loop.Submit(r)
		if err != nil {
			return nil, speed{}, err
		}
		tickets = append(tickets, t)
	}
	stop := context.AfterFunc(ctx, func() {
		for _, t := range tickets {
			t.Cancel()
		}
	})
	defer stop()
	var s speed
	for _, sink := range sinks {
		if err := <-sink.end; err != nil {
			return nil, s, err
		}
		s.texts = append(s.texts, sink.text)
	}
	s.each = pace(sinks)
	after := loop.Status().Counts
	steps := float64(after.SlotPasses - before.SlotPasses - uint64(len(prompts)))
	guessed, right := after.Drafted.Total()
	guessed0, right0 := before.Drafted.Total()
	if steps > 0 {
		s.drafts, s.accepted = float64(guessed-guessed0)/steps, float64(right-right0)/steps
	}
	return s.texts, s, nil
}

// pace returns the nanoseconds that a token of a stream took on average while all streams were generating.
func pace(sinks []*recorder) float64 {
	var from time.Time
	var to time.Time
	for i, s := range sinks {
		if from.Before(s.times[0]) {
			from = s.times[0]
		}
		if last := s.times[len(s.times)-1]; i == 0 || last.Before(to) {
			to = last
		}
	}
	tokens := 0
	for _, s := range sinks {
		for _, t := range s.times {
			if t.After(from) && !t.After(to) {
				tokens++
			}
		}
	}
	if tokens == 0 {
		return math.NaN()
	}
	return float64(to.Sub(from)) * float64(len(sinks)) / float64(tokens)
}

// A recorder is a Sink that keeps a text and when its tokens came.
type recorder struct {
	text  []int32
	times []time.Time
	end   chan error
}

func (r *recorder) Progress(engine.Progress) {}

func (r *recorder) Token(t engine.Token) bool {
	r.text, r.times = append(r.text, t.ID), append(r.times, time.Now())
	return true
}

func (r *recorder) Done(res engine.Result) {
	if res.Err == nil && len(r.times) < 2 {
		res.Err = errors.New("a text of less than two tokens, want more to measure")
	}
	r.end <- res.Err
}
