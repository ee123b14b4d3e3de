// Package bench measures the speed of models and kernels and writes the results as
// tables. Names, numbers and formats are those of llama-bench. Each speed is shown
// beside the machine's roofline.
package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/measure"
)

// A run is the execution of a Plan.
type run struct {
	plan   *Plan
	output Output
	roofs  map[int]*measure.Roofline // by number of threads
	rows   printer[Result]
	random *rand.Rand

	drafts printer[SpeculationResult] // of a Speculation, instead of rows

	ops      printer[ProfileResult] // of a profile, instead of rows
	profiles [][]ProfileResult      // of each setup and case
	sounds   printer[SoundResult]   // of a sound, instead of rows
}

// Run measures every case of every setup.
func (p *Plan) Run(ctx context.Context, out Output) error {
	opened := map[string]bool{}
	for _, s := range p.Setups { // fail early, not after an hour of measuring the others
		if opened[s.Model] {
			continue
		}
		file, err := p.Open(s.Model)
		if err != nil {
			return err
		}
		file.Close()
		if _, _, err := p.Speculation.texts(p.Cases, s.Model); err != nil {
			return err
		}
		opened[s.Model] = true
	}
	if p.Speculation != nil {
		if _, err := readRounds(p.Speculation.Rounds, &round{}); err != nil {
			return err
		}
	}
	b := &run{plan: p, output: out, roofs: map[int]*measure.Roofline{}, random: rand.New(rand.NewPCG(1, 2))}
	var lines interface {
		begin() error
		end() error
	}
	switch {
	case p.Profile:
		b.ops = newPrinter(out, profileTable(out.Roofline))
		lines = b.ops
	case p.Speculation != nil:
		b.drafts = newPrinter(out, speculationTable())
		lines = b.drafts
	case p.Sound != nil:
		b.sounds = newPrinter(out, soundTable())
		lines = b.sounds
	case p.Curve:
		b.rows = p.curvePrinter(out)
		lines = b.rows
	default:
		b.rows = newPrinter(out, table[Result]{p.columns(out), (*Result).footer})
		lines = b.rows
	}
	if err := lines.begin(); err != nil {
		return err
	}
	for _, s := range p.Setups {
		if err := b.setup(ctx, s); err != nil {
			return err
		}
	}
	if err := lines.end(); err != nil || p.Picture == nil {
		return err
	}
	if c, ok := lines.(*curvePrinter); ok {
		return p.Picture(func(w io.Writer) (int64, error) { return drawCurves(w, c.drawn) })
	}
	return p.Picture(func(w io.Writer) (int64, error) { return drawProfiles(w, b.profiles) })
}

// setup loads a model with the settings of s and measures each case.
func (b *run) setup(ctx context.Context, s Setup) error {
	roof, err := b.roofline(s.Threads)
	if err != nil {
		return err
	}
	file, err := b.plan.Open(s.Model)
	if err != nil {
		return err
	}
	defer file.Close()
	cfg, err := file.Config()
	if err != nil {
		return fmt.Errorf("%s: %w", s.Model, err)
	}
	info, vocab := describe(file.GGUF, cfg, s.KV), cfg.NVocab
	cases, text, err := b.plan.Speculation.texts(b.plan.Cases, s.Model)
	if err != nil {
		return err
	}
	need := 0
	for _, c := range cases {
		need = max(need, c.Prompt+c.Gen+c.Depth)
	}
	if p := b.plan.Speculation; p != nil {
		most := slices.Max(p.Streams)
		need += (mostDrafts + 1) * most
		s.Streams = most + 1 // there is memory for the text in whose middle passes are measured too
	}
	if b.plan.Sound != nil {
		need = cfg.NCtx
	}
	eng, done, err := b.plan.Load(file, s, need)
	if err != nil {
		return err
	}
	defer done()
	if b.plan.Sound != nil {
		if err := b.hear(ctx, eng, s, info.desc); err != nil {
			return fmt.Errorf("%s: %w", s.Model, err)
		}
		return nil
	}
	seq := eng.NewSequence()
	defer seq.Close()
	for _, c := range cases {
		if b.plan.Speculation != nil {
			if err := b.speculate(ctx, eng, s, c, info, vocab, text); err != nil {
				return fmt.Errorf("%s: %s: %w", s.Model, c, err)
			}
			continue
		}
		r := b.blank(s, c, info)
		if err := b.sample(ctx, eng, seq, c, s.Batch, vocab, r); err != nil {
			return fmt.Errorf("%s: %s: %w", s.Model, c, err)
		}
		if b.plan.Profile {
			if err := b.profile(eng, r, roof); err != nil {
				return err
			}
			continue
		}
		r.finish(roof, info.cost)
		if err := b.rows.row(r); err != nil {
			return err
		}
	}
	return nil
}

// roofline measures the machine, once for each number of threads and while no model
// uses memory. It returns nil if none is requested.
func (b *run) roofline(threads int) (*measure.Roofline, error) {
	if !b.output.Roofline {
		return nil, nil
	}
	if r := b.roofs[threads]; r != nil {
		return r, nil
	}
	place := b.plan.Machine.Place(threads)
	at, err := engine.Threads(place, threads)
	if err != nil {
		return nil, err
	}
	pool, err := kernel.NewPool(threads, at)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	r, err := measure.NewRoofline(pool, place.Places)
	if err != nil {
		return nil, fmt.Errorf("%w; --no-roofline skips this", err)
	}
	b.roofs[threads] = &r
	return &r, nil
}

// blank returns a result without samples.
func (b *run) blank(s Setup, c Case, info about) *Result {
	return &Result{
		BuildCommit: b.output.Commit, CPUInfo: b.plan.Machine.Model, Backends: "CPU",
		ModelFilename: s.Model, ModelType: info.desc, ModelSize: info.bytes, ModelParams: info.params,
		Batch: s.Batch, UBatch: s.UBatch, Threads: s.Threads, CPUMask: "0x0",
		TypeK: s.KV.K.String(), TypeV: s.KV.V.String(), SplitMode: "none", FlashAttn: s.FlashAttn,
		Devices: "none", TensorSplit: "0.00", Overrides: "none", LoadMode: b.plan.Weights,
		Prompt: c.Prompt, Gen: c.Gen, Depth: c.Depth, TestTime: time.Now().UTC().Format(time.RFC3339),
	}
}

// sample warms up and repeats the case. The context tokens before the test are
// evaluated once and not timed: each repetition, and the next case, rewinds to their
// end.
func (b *run) sample(ctx context.Context, eng *engine.Engine, seq *engine.Sequence, c Case, batch, vocab int, r *Result) error {
	seq.Truncate(min(c.Depth, seq.Len()))
	if err := b.evaluate(ctx, eng, seq, c.Depth-seq.Len(), 0, batch, vocab); err != nil {
		return err
	}
	if b.plan.Warmup {
		if err := b.evaluate(ctx, eng, seq, c.Prompt, min(c.Gen, 1), batch, vocab); err != nil {
			return err
		}
		seq.Truncate(c.Depth)
	}
	if b.plan.Profile {
		eng.Measure(true) // reset until the next case
	}
	before, err := b.energy()
	if err != nil {
		return err
	}
	for range b.plan.Repeats {
		start := time.Now()
		if err := b.evaluate(ctx, eng, seq, c.Prompt, c.Gen, batch, vocab); err != nil {
			return err
		}
		r.sample(uint64(time.Since(start).Nanoseconds()))
		seq.Truncate(c.Depth)
	}
	after, err := b.energy()
	if b.plan.Energy != nil {
		each := (after - before) / float64(b.plan.Repeats*(c.Prompt+c.Gen))
		r.Joules = &each
	}
	return err
}

// energy returns the joules that the machine has used since its meter was made.
func (b *run) energy() (float64, error) {
	if b.plan.Energy == nil {
		return 0, nil
	}
	used, err := b.plan.Energy.Read()
	return used.Sum(), err
}

// evaluate appends a prompt, batch tokens at a time, and then gen tokens one by one.
// Logits are computed where generation would need them.
func (b *run) evaluate(ctx context.Context, eng *engine.Engine, seq *engine.Sequence, prompt, gen, batch, vocab int) error {
	computed := func(int, []float32) error { return nil }
	for prompt > 0 {
		n := min(prompt, batch)
		prompt -= n
		if err := eng.Eval(ctx, seq, b.tokens(n, vocab), n-1, computed); err != nil {
			return err
		}
	}
	for range gen {
		if err := eng.Eval(ctx, seq, b.tokens(1, vocab), 0, computed); err != nil {
			return err
		}
	}
	return nil
}

// tokens returns n ids below vocab: their values do not affect the cost.
func (b *run) tokens(n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = b.random.Int32N(int32(vocab))
	}
	return ids
}
