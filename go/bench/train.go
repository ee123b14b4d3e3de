package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/measure"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/train"
)

// Training configures benchmarks of steps that train an adapter (LoRA) of all matrices of a model's layers, or all weights.
type Training struct {
	Models  []string
	Tokens  []int  // of a step: one text, each of whose tokens but the first is to be learnt
	Rank    int    // of the adapter
	DoRA    bool   // it has magnitudes
	Full    string // what all weights are rounded to, as finetune.WholeOf has it, of which Muon takes matrices; empty: an adapter
	Threads []int  // numbers of threads to measure
	KV      []kvcache.Types
	Repeats int
	Warmup  bool // a step before, uncounted
	Profile bool // report the time by operation instead of the speed
	Machine *machine.Machine
	Budget  *mem.Budget
	Open    func(model string) (*model.File, error)
}

// A TrainResult is a row of Training: the speed of steps.
type TrainResult struct {
	BuildCommit   string `json:"build_commit"`
	CPUInfo       string `json:"cpu_info"`
	ModelFilename string `json:"model_filename"`
	ModelType     string `json:"model_type"`
	ModelSize     uint64 `json:"model_size"`
	ModelParams   uint64 `json:"model_n_params"`
	Threads       int    `json:"n_threads"`
	TypeK         string `json:"type_k"`
	TypeV         string `json:"type_v"`
	Tokens        int    `json:"n_train"`
	Rank          int    `json:"rank"`
	DoRA          bool   `json:"dora,omitzero"`
	Full          string `json:"full,omitempty"`

	Memory    uint64    `json:"memory_bytes"` // of the trainer, the adapter and the optimiser, beside the model
	Layers    int       `json:"layers"`       // of the model
	Kept      int       `json:"kept"`         // of them, those that are not computed again for the backward pass
	AvgNS     uint64    `json:"avg_ns"`       // of a step: forward, backward, and the adapter's numbers changed
	StdDevNS  uint64    `json:"stddev_ns"`
	BestNS    uint64    `json:"best_ns"`
	AvgTS     float64   `json:"avg_ts"`
	StdDevTS  float64   `json:"stddev_ts"`
	GMACs     float64   `json:"gmacs"` // 1e9 multiply-adds per second with the weights, forward and back: each once
	SamplesNS []uint64  `json:"samples_ns"`
	SamplesTS []float64 `json:"samples_ts"`

	products
}

// products are the speeds of products from cache with weights of these types, 1e9 multiply-adds per second: what the backward
// pass is held against. And the shares of them that a row reaches.
type products struct {
	F32GMACs     *float64 `json:"f32_gmacs,omitempty"`
	BF16GMACs    *float64 `json:"bf16_gmacs,omitempty"`
	F32Fraction  *float64 `json:"f32_fraction,omitempty"`
	BF16Fraction *float64 `json:"bf16_fraction,omitempty"`
}

// compared returns p with the shares that so many multiply-adds are.
func (p products) compared(gmacs float64) products {
	p.F32Fraction, p.BF16Fraction = nil, nil
	if p.F32GMACs != nil && gmacs > 0 {
		f32, bf16 := gmacs / *p.F32GMACs, gmacs / *p.BF16GMACs
		p.F32Fraction, p.BF16Fraction = &f32, &bf16
	}
	return p
}

// A TrainOpResult is the time that steps spent in one kind of operation on the same tensors, over all layers. "again" in its name
// is of what is computed a second time, for the backward pass.
type TrainOpResult struct {
	ProfileResult
	Tokens int  `json:"n_train"`
	Rank   int  `json:"rank"`
	DoRA   bool `json:"dora,omitzero"`
	products
}

func shareOf(v *float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100**v)
}

// trained names what is trained.
func trained(r *TrainResult) string {
	switch {
	case r.Full != "":
		return "all " + r.Full
	case r.DoRA:
		return fmt.Sprintf("dora %d", r.Rank)
	}
	return fmt.Sprintf("rank %d", r.Rank)
}

func trainTable(roofline bool) table[TrainResult] {
	type col = column[TrainResult]
	columns := []col{
		{"model", 30, true, func(r *TrainResult) string { return r.ModelType }},
		{"size", 10, false, func(r *TrainResult) string { return sizeName(r.ModelSize) }},
		{"threads", 7, false, func(r *TrainResult) string { return fmt.Sprint(r.Threads) }},
		{"type_k", 6, false, func(r *TrainResult) string { return r.TypeK }},
		{"type_v", 6, false, func(r *TrainResult) string { return r.TypeV }},
		{"trained", 8, false, func(r *TrainResult) string { return trained(r) }},
		{"test", 10, false, func(r *TrainResult) string { return fmt.Sprintf("train%d", r.Tokens) }},
		{"t/s", 18, false, func(r *TrainResult) string { return fmt.Sprintf("%.2f ± %.2f", r.AvgTS, r.StdDevTS) }},
		{"best t/s", 10, false, func(r *TrainResult) string { return fmt.Sprintf("%.2f", 1e9*float64(r.Tokens)/float64(r.BestNS)) }},
		{"memory", 9, false, func(r *TrainResult) string { return mem.FormatBytes(r.Memory) }},
		{"kept", 7, false, func(r *TrainResult) string { return fmt.Sprintf("%d/%d", r.Kept, r.Layers) }},
		{"GMAC/s", 8, false, func(r *TrainResult) string { return fmt.Sprintf("%.1f", r.GMACs) }},
	}
	if roofline {
		columns = append(columns,
			col{"of F32", 7, false, func(r *TrainResult) string { return shareOf(r.F32Fraction) }},
			col{"of BF16", 7, false, func(r *TrainResult) string { return shareOf(r.BF16Fraction) }})
	}
	return table[TrainResult]{columns, func(r *TrainResult) string {
		return strings.Join(append(r.footer(), "build: "+r.BuildCommit), "\n")
	}}
}

func (p products) footer() []string {
	if p.F32GMACs == nil {
		return nil
	}
	return []string{fmt.Sprintf("products from cache: %.0f G multiply-adds/s of F32 weights, %.0f of BF16, measured", *p.F32GMACs, *p.BF16GMACs)}
}

func trainOpTable(roofline bool) table[TrainOpResult] {
	type col = column[TrainOpResult]
	base := profileTable(false)
	columns := []col{{"test", 10, false, func(r *TrainOpResult) string { return fmt.Sprintf("train%d", r.Tokens) }}}
	for _, c := range base.columns[1:] {
		columns = append(columns, col{c.name, c.width, c.left, func(r *TrainOpResult) string { return c.value(&r.ProfileResult) }})
	}
	if roofline {
		columns = append(columns,
			col{"of F32", 7, false, func(r *TrainOpResult) string { return shareOf(r.F32Fraction) }},
			col{"of BF16", 7, false, func(r *TrainOpResult) string { return shareOf(r.BF16Fraction) }})
	}
	return table[TrainOpResult]{columns, func(r *TrainOpResult) string {
		return strings.Join(append(r.footer(), base.footer(&r.ProfileResult)), "\n")
	}}
}

// Run measures every model on each number of threads, with each number of tokens.
func (t *Training) Run(ctx context.Context, out Output) error {
	speeds, ops := newPrinter(out, trainTable(out.Roofline)), newPrinter(out, trainOpTable(out.Roofline))
	var lines interface {
		begin() error
		end() error
	} = speeds
	if t.Profile {
		lines = ops
	}
	if err := lines.begin(); err != nil {
		return err
	}
	for _, threads := range t.Threads {
		err := t.run(ctx, threads, out, func(r *TrainResult, profile []ProfileResult) error {
			if !t.Profile {
				return speeds.row(r)
			}
			for _, o := range profile {
				row := &TrainOpResult{ProfileResult: o, Tokens: r.Tokens, Rank: r.Rank, DoRA: r.DoRA, products: r.compared(o.GMACs)}
				row.BuildCommit, row.CPUInfo, row.ModelFilename, row.ModelType = r.BuildCommit, r.CPUInfo, r.ModelFilename, r.ModelType
				row.Threads, row.TypeK, row.TypeV = r.Threads, r.TypeK, r.TypeV
				if err := ops.row(row); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return lines.end()
}

func (t *Training) run(ctx context.Context, threads int, out Output, yield func(*TrainResult, []ProfileResult) error) error {
	pool, _, leave, err := enter(t.Machine, threads, false)
	if err != nil {
		return err
	}
	defer leave()
	var peaks products
	if out.Roofline {
		if peaks, err = t.products(pool); err != nil {
			return err
		}
	}
	for _, name := range t.Models {
		for _, kv := range t.KV {
			for _, n := range t.Tokens {
				r := &TrainResult{
					BuildCommit: out.Commit, CPUInfo: t.Machine.Model, ModelFilename: name, Threads: threads, Tokens: n, Rank: t.Rank, DoRA: t.DoRA,
					Full: t.Full, TypeK: kv.K.String(), TypeV: kv.V.String(), products: peaks,
				}
				profile, err := t.measure(ctx, pool, kv, r)
				if err != nil {
					return fmt.Errorf("%s: train%d: %w", filepath.Base(name), n, err)
				}
				if err := yield(r, profile); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// products measures products of 64 tokens.
func (t *Training) products(pool *kernel.Pool) (p products, err error) {
	region, err := t.Budget.Alloc("weights to measure products", uint64(pool.Threads())*(16<<20))
	if err != nil {
		return p, err
	}
	defer region.Close()
	b := measure.Bench{Pool: pool, Memory: region.Bytes(), Budget: t.Budget, Repeats: 9}
	b.Fill()
	for _, x := range []struct {
		kind kernel.Type
		to   **float64
	}{{kernel.F32, &p.F32GMACs}, {kernel.BF16, &p.BF16GMACs}} {
		r, err := b.Cached(x.kind, 64)
		if err != nil {
			return p, fmt.Errorf("products of %v: %w; --no-roofline skips them", x.kind, err)
		}
		best := 0.0
		for _, s := range r.Samples { // other load only ever slows one down
			best = max(best, r.MACs/float64(max(s, 1)))
		}
		*x.to = &best
	}
	return p, nil
}

// measure takes steps.
func (t *Training) measure(ctx context.Context, pool *kernel.Pool, kv kvcache.Types, r *TrainResult) ([]ProfileResult, error) {
	f, err := t.Open(r.ModelFilename)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, a, err := t.tuned(ctx, f, pool, kv, r)
	if err != nil {
		return nil, err
	}
	if t.Full == "" { // else it is a's
		defer m.Close()
	}
	info := describe(f.GGUF, m.Config, kv)
	r.ModelType, r.ModelSize, r.ModelParams = info.desc, info.bytes, info.params
	trainer, err := model.NewTrainer(m, a, model.TrainerConfig{Pool: pool, Budget: t.Budget, MaxTokens: r.Tokens})
	if err != nil {
		return nil, err
	}
	defer trainer.Close()
	before := t.Budget.Free()
	c := train.Config{Steps: t.Repeats + 1, Rate: 1e-5}
	if t.Full != "" {
		c.MuonRate = 1e-4
	}
	run, err := train.New(trainer, pool, t.Budget, []model.Text{someText(m.Config, r.Tokens)}, c)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	r.Memory = a.Bytes() + before - t.Budget.Free()
	trainer.Keep(trainer.Spare())
	r.Layers = len(m.Config.Layers)
	r.Kept, _ = trainer.Kept()
	r.Memory += trainer.Bytes()
	stop := new(kernel.Stop)
	defer context.AfterFunc(ctx, stop.Set)()
	var times []float64
	for i := range t.Repeats + 1 {
		if i == 0 && !t.Warmup {
			continue
		}
		if i <= 1 && t.Profile {
			trainer.Measure(true) // without the step before
		}
		start := time.Now()
		if _, err := run.Next(stop); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, err
		}
		if took := max(time.Since(start), 1); i > 0 {
			r.SamplesNS = append(r.SamplesNS, uint64(took))
			r.SamplesTS = append(r.SamplesTS, float64(r.Tokens)/took.Seconds())
			times = append(times, float64(took))
		}
	}
	r.finish(times, info.cost)
	if !t.Profile {
		return nil, nil
	}
	return summarize(trainer.Profile(), r.Threads), nil
}

// tuned loads the model, with what is trained of it.
func (t *Training) tuned(ctx context.Context, f *model.File, pool *kernel.Pool, kv kvcache.Types, r *TrainResult) (*model.Model, *model.Tuned, error) {
	types := (&engine.Config{KV: kv}).KVTypes()
	if t.Full != "" {
		whole, err := finetune.WholeOf(f.GGUF, t.Full)
		if err != nil {
			return nil, nil, err
		}
		whole.KV = types
		a, err := model.NewWhole(f, whole, pool, t.Budget)
		if err != nil {
			return nil, nil, err
		}
		return a.Model(), a, nil
	}
	s, err := model.NewSurvey(f, types, r.Tokens)
	if err != nil {
		return nil, nil, err
	}
	m, err := s.Load(model.Options{Pack: pool.PackInto, Budget: t.Budget, Residency: model.Mapped, Until: ctx})
	if err != nil {
		return nil, nil, err
	}
	a, err := model.NewTuned(m, model.LoRA{Rank: r.Rank, Alpha: float64(2 * r.Rank), Magnitudes: r.DoRA, Seed: 1}, t.Budget)
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	return m, a, nil
}

// finish computes what follows from the times, in nanoseconds. Each weight that a token is multiplied by is in a product of the
// forward pass, and in one of the backward pass, or two where all weights are trained.
func (r *TrainResult) finish(took []float64, c cost) {
	avg, dev := meanDev(took)
	r.AvgNS, r.StdDevNS, r.BestNS = uint64(avg), uint64(dev), r.SamplesNS[0]
	for _, ns := range r.SamplesNS {
		r.BestNS = min(r.BestNS, ns)
	}
	r.AvgTS, r.StdDevTS = meanDev(r.SamplesTS)
	times := 2.0
	if r.Full != "" {
		times = 3
	}
	r.GMACs = times * (c.macs*float64(r.Tokens) + c.outputMACs*float64(r.Tokens-1)) / float64(r.BestNS)
	r.products = r.compared(r.GMACs)
}

// someText is of random tokens, all of which but the first are to be learnt: values do not affect the cost.
func someText(c *model.Config, n int) model.Text {
	random := rand.New(rand.NewPCG(1, 2))
	x := model.Text{Tokens: make([]int32, n), Weights: make([]float32, n)}
	for i := range x.Tokens {
		for never := c.Suppressed; ; {
			x.Tokens[i], x.Weights[i] = random.Int32N(int32(c.NVocab)), 1
			if id := int(x.Tokens[i]); id < never[0] || id >= never[1] {
				break
			}
		}
	}
	return x
}
