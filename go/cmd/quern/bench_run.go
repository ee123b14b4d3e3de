package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/machine"
)

// A bench is one run of "quern bench".
type bench struct {
	flags   *benchFlags
	machine *machine.Machine
	build   build
	roofs   map[int]*roofline // by number of threads
	out     benchPrinter[benchResult]
	stderr  io.Writer
	random  *rand.Rand
}

// measure runs every case of every setup.
func (f *benchFlags) measure(ctx context.Context, out benchPrinter[benchResult], stderr io.Writer) error {
	m, err := machine.Read()
	if err != nil {
		return err
	}
	if len(f.threads) == 0 {
		f.threads = []int{m.Threads()}
	}
	setups, err := f.setups()
	if err != nil {
		return err
	}
	if _, err := chooseKernels(); err != nil {
		return err
	}
	for _, path := range f.models { // before an hour of measuring the others
		file, err := openFile(path)
		if err != nil {
			return err
		}
		file.Close()
	}
	b := &bench{
		flags: f, machine: m, build: readBuild(), roofs: map[int]*roofline{}, out: out, stderr: stderr,
		random: rand.New(rand.NewPCG(1, 2)),
	}
	if err := out.begin(); err != nil {
		return err
	}
	for _, s := range setups {
		if err := b.setup(ctx, s); err != nil {
			return err
		}
	}
	return out.end()
}

// setup loads a model as s says and measures each case.
func (b *bench) setup(ctx context.Context, s benchSetup) error {
	roof, err := b.roofline(s.threads)
	if err != nil {
		return err
	}
	file, err := openFile(s.model)
	if err != nil {
		return err
	}
	defer file.Close()
	cfg, err := file.Config()
	if err != nil {
		return fmt.Errorf("%s: %w", s.model, err)
	}
	about, vocab := describe(file.GGUF, cfg, s.kv), cfg.NVocab
	cases := b.flags.cases()
	need := 0
	for _, c := range cases {
		need = max(need, c.prompt+c.gen+c.depth)
	}
	load := modelFlags{
		path: s.model, ctx: need, threads: s.threads, batch: min(s.batch, s.ubatch),
		typeK: s.kv.K.String(), typeV: s.kv.V.String(), weights: b.flags.weights, memory: b.flags.memory,
	}
	eng, _, err := load.open(file, b.stderr)
	if err != nil {
		return err
	}
	defer eng.Close()
	seq := eng.NewSequence()
	defer seq.Close()
	for _, c := range cases {
		r := b.blank(s, c, about)
		if err := b.sample(ctx, eng, seq, c, s.batch, vocab, r); err != nil {
			return fmt.Errorf("%s: %s: %w", s.model, c, err)
		}
		r.finish(roof, about.cost)
		if err := b.out.row(r); err != nil {
			return err
		}
	}
	return nil
}

// roofline measures the machine, once for each number of threads and while no
// model takes memory. It is nil with --no-roofline.
func (b *bench) roofline(threads int) (*roofline, error) {
	if b.flags.noRoofline {
		return nil, nil
	}
	if r := b.roofs[threads]; r != nil {
		return r, nil
	}
	pool, err := kernel.NewPool(threads, b.machine.WorkerCPUs(threads))
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	r, err := measureRoofline(pool)
	if err != nil {
		return nil, err
	}
	b.roofs[threads] = &r
	return &r, nil
}

// blank returns a result with all but the samples.
func (b *bench) blank(s benchSetup, c benchCase, about benchModel) *benchResult {
	return &benchResult{
		BuildCommit: b.build.Commit, CPUInfo: b.machine.Model, Backends: "CPU",
		ModelFilename: s.model, ModelType: about.desc, ModelSize: about.bytes, ModelParams: about.params,
		Batch: s.batch, UBatch: s.ubatch, Threads: s.threads, CPUMask: "0x0",
		TypeK: s.kv.K.String(), TypeV: s.kv.V.String(), SplitMode: "none", FlashAttn: s.flashAttn,
		Devices: "none", TensorSplit: "0.00", Overrides: "none", LoadMode: b.flags.weights,
		Prompt: c.prompt, Gen: c.gen, Depth: c.depth, TestTime: time.Now().UTC().Format(time.RFC3339),
	}
}

// sample warms up and repeats the case. The tokens before the test are not
// timed, and computed once: each repetition, and the next case, goes back to
// where they end.
func (b *bench) sample(ctx context.Context, eng *engine.Engine, seq *engine.Sequence, c benchCase, batch, vocab int, r *benchResult) error {
	seq.Truncate(min(c.depth, seq.Len()))
	if err := b.evaluate(ctx, eng, seq, c.depth-seq.Len(), 0, batch, vocab); err != nil {
		return err
	}
	if !b.flags.noWarmup {
		if err := b.evaluate(ctx, eng, seq, c.prompt, min(c.gen, 1), batch, vocab); err != nil {
			return err
		}
		seq.Truncate(c.depth)
	}
	for range b.flags.reps {
		start := time.Now()
		if err := b.evaluate(ctx, eng, seq, c.prompt, c.gen, batch, vocab); err != nil {
			return err
		}
		r.sample(uint64(time.Since(start).Nanoseconds()))
		seq.Truncate(c.depth)
	}
	return nil
}

// evaluate appends a prompt, batch tokens at a time, and then gen tokens one by
// one. Logits are computed where a program that generates text would want them.
func (b *bench) evaluate(ctx context.Context, eng *engine.Engine, seq *engine.Sequence, prompt, gen, batch, vocab int) error {
	computed := func(int, []float32) error { return nil }
	for prompt > 0 {
		n := min(prompt, batch)
		prompt -= n
		if err := eng.Eval(ctx, seq, b.tokens(n, vocab), computed, nil); err != nil {
			return err
		}
	}
	for range gen {
		if err := eng.Eval(ctx, seq, b.tokens(1, vocab), computed, nil); err != nil {
			return err
		}
	}
	return nil
}

// tokens returns n ids, any below vocab: what they mean does not change what
// they cost.
func (b *bench) tokens(n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = b.random.Int32N(int32(vocab))
	}
	return ids
}
