package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/bench"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/measure"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/tokenizer"
	"github.com/quern-llm/quern/go/transcribe"
)

// Defaults of -p and -d.
const (
	// curveTokens are every number of tokens that some kernel has a tile for, then
	// larger steps.
	curveTokens  = "1-32,48,64,96,128,256,512"
	kernelTokens = "1,2,4,8,16,32,64,128,256,512"
	kernelDepth  = 4096
)

// plan returns the plan of benchmarks that the flags describe.
func (f *benchFlags) plan(m *machine.Machine, stderr io.Writer) (*bench.Plan, error) {
	setups, err := f.setups()
	if err != nil {
		return nil, err
	}
	residency, err := model.ParseResidency(f.weights)
	if err != nil {
		return nil, err
	}
	var picture func(func(io.Writer) (int64, error)) error
	if f.plot != "" {
		picture = func(draw func(io.Writer) (int64, error)) error {
			_, err := newfile.Write(f.plot, true, 0o644, 0, draw)
			return err
		}
	}
	files := f.hub.files
	var speculation *bench.Speculation
	if f.drafts() {
		speculation = &f.speculate
		speculation.By = f.draft.model
		if f.text != "" {
			text, err := os.ReadFile(f.text)
			if err != nil {
				return nil, err
			}
			speculation.TextName = f.text
			speculation.Text = func(model string) ([]int32, error) {
				tok, err := files.Tokenizer(model)
				if err != nil {
					return nil, err
				}
				return tok.Begin(tok.Encode(string(text), tokenizer.Options{})), nil
			}
		}
	}
	var heard *bench.Sound
	if f.sound != "" {
		samples, err := readSound(context.Background(), f.sound, mem.NewBudget(engine.Limit(m, f.memory)))
		if err != nil {
			return nil, err
		}
		heard = &bench.Sound{Name: f.sound, Samples: samples, Vocabulary: func(model string) (*transcribe.Vocabulary, error) {
			tok, err := files.Tokenizer(model)
			if err != nil {
				return nil, err
			}
			return transcribe.NewVocabulary(tok)
		}}
	}
	return &bench.Plan{
		Speculation: speculation, Sound: heard,
		Setups: setups, Cases: f.cases(), Curve: f.curve, Profile: f.profile, Picture: picture, Repeats: f.reps, Warmup: !f.noWarmup, Weights: f.weights,
		Columns: bench.Columns{Batch: f.changed("batch-size"), UBatch: f.changed("ubatch-size"), FlashAttn: f.changed("flash-attn")},
		Machine: m, Open: func(name string) (*model.File, error) { return files.Open(name, "") },
		Load: func(file *model.File, s bench.Setup, ctx int) (*engine.Engine, func() error, error) {
			settings := launch.Settings{
				Ctx: ctx, Batch: min(s.Batch, s.UBatch), KV: s.KV, Residency: residency, Sequences: s.Streams,
			}
			if f.drafts() {
				settings.Draft = f.draft.settings()
			}
			head, err := files.NewHead(s.Model, file, settings)
			if err != nil {
				return nil, nil, err
			}
			load := deviceFlags{threads: s.Threads, cpus: cpuFlags{placeFlags: f.place}, memory: f.memory}
			m, err := load.open(head, stderr)
			if err != nil {
				return nil, nil, err
			}
			return m.Engine, m.Close, nil
		},
	}, nil
}

// planCurve sets the flags to single passes, that of one token first.
func (f *benchFlags) planCurve() error {
	if f.changed("n-gen") || f.changed("prompt-gen") {
		return usagef("--curve measures passes of -p tokens, not generation; leave -n and -pg out")
	}
	f.gen = []int{0}
	if !f.changed("n-prompt") {
		f.prompt, _ = parseList(curveTokens, 1, maxTokens) // a constant, checked by a test
	}
	most := slices.Max(f.prompt)
	for _, limit := range []struct {
		flag string
		list *[]int
	}{{"batch-size", &f.batch}, {"ubatch-size", &f.ubatch}} {
		switch {
		case !f.changed(limit.flag):
			*limit.list = []int{max(most, (*limit.list)[0])}
		case slices.Min(*limit.list) < most:
			return usagef("--%s %d cuts -p %d into several passes; --curve needs one, leave it out", limit.flag, slices.Min(*limit.list), most)
		}
	}
	rest := slices.DeleteFunc(slices.Clone(f.prompt), func(n int) bool { return n <= 1 })
	f.prompt = append([]int{1}, rest...)
	return nil
}

// planSpeculation sets the flags to texts that are generated after prompts.
func (f *benchFlags) planSpeculation() error {
	if f.changed("prompt-gen") || len(f.depth) > 1 || f.depth[0] > 0 {
		return usagef("--speculate generates -n tokens after prompts of -p; leave -pg and -d out")
	}
	switch {
	case f.changed("n-prompt") && slices.Min(f.prompt) < 1:
		return usagef("--speculate needs prompts of a token at least; give -p")
	case f.changed("n-prompt"):
	case f.text != "":
		f.prompt = []int{0} // all of it
	default:
		f.prompt = []int{64}
	}
	if slices.Min(f.gen) < 8 {
		return usagef("--speculate needs texts of 8 tokens at least; give -n")
	}
	for _, p := range f.prompt {
		for _, n := range f.gen {
			f.promptGen = append(f.promptGen, promptGen{p, n})
		}
	}
	f.prompt, f.gen = nil, nil
	return nil
}

// setups returns every combination of the loading flags, in llama-bench's order.
func (f *benchFlags) setups() ([]bench.Setup, error) {
	kvs, err := f.kvTypes()
	if err != nil {
		return nil, err
	}
	var list []bench.Setup
	for _, model := range f.models {
		for _, batch := range f.batch {
			for _, ubatch := range f.ubatch {
				for _, kv := range kvs {
					for _, fa := range f.flashAttn {
						for _, threads := range f.threads {
							list = append(list, bench.Setup{Model: model, Batch: batch, UBatch: ubatch, KV: kv, FlashAttn: flashAttnNumber(fa), Threads: threads})
						}
					}
				}
			}
		}
	}
	return list, nil
}

// cases returns the tests of each setup: prompts, then generations, then both,
// at each depth.
func (f *benchFlags) cases() []bench.Case {
	var list []bench.Case
	for _, d := range f.depth {
		for _, n := range f.prompt {
			list = append(list, bench.Case{Prompt: n, Depth: d})
		}
		for _, n := range f.gen {
			list = append(list, bench.Case{Gen: n, Depth: d})
		}
		for _, t := range f.promptGen {
			list = append(list, bench.Case{Prompt: t.prompt, Gen: t.gen, Depth: d})
		}
	}
	some := list[:0]
	for _, c := range list {
		if c.Prompt+c.Gen > 0 { // -p 0 disables it
			some = append(some, c)
		}
	}
	return some
}

// kvTypes returns every combination of the types of keys and of values.
func (f *benchFlags) kvTypes() ([]kvcache.Types, error) {
	var list []kvcache.Types
	for _, name := range f.typeK {
		k, err := kvcache.ParseType(name)
		if err != nil {
			return nil, usagef("--cache-type-k: %w", err)
		}
		for _, name := range f.typeV {
			v, err := kvcache.ParseType(name)
			if err != nil {
				return nil, usagef("--cache-type-v: %w", err)
			}
			list = append(list, kvcache.Types{K: k, V: v})
		}
	}
	return list, nil
}

func flashAttnNumber(word string) int {
	switch strings.ToLower(word) {
	case "auto", "-1":
		return -1
	}
	return 1
}

func acceptWeightType(s string) error {
	_, err := parseWeightType(s)
	return err
}

func parseWeightType(s string) (kernel.Type, error) {
	var names []string
	for _, t := range kernel.Types() {
		if strings.EqualFold(s, t.String()) {
			return t, nil
		}
		names = append(names, t.String())
	}
	return 0, fmt.Errorf("want some of %s", strings.Join(names, " "))
}

// kernelBench returns the benchmark that the flags describe, without threads and memory.
func (f *benchFlags) kernelBench() (measure.Bench, error) {
	b := measure.Bench{Types: kernel.Types(), Tokens: f.prompt, Depth: kernelDepth, Repeats: f.reps}
	if len(f.models) > 0 || f.curve || f.changed("n-gen") || f.changed("prompt-gen") {
		return b, usagef("--kernels measures without a model; leave -m, -n, -pg and --curve out")
	}
	if !f.changed("n-prompt") {
		b.Tokens, _ = parseList(kernelTokens, 1, maxTokens) // a constant, checked by a test
	}
	for _, n := range b.Tokens {
		if n < 1 || n > 1<<16 {
			return b, usagef("-p %d with --kernels: want tokens from 1 to %d", n, 1<<16)
		}
	}
	if f.changed("n-depth") {
		if len(f.depth) > 1 {
			return b, usagef("--kernels takes one --n-depth")
		}
		b.Depth = f.depth[0]
	}
	if f.changed("types") {
		b.Types = nil
		for _, name := range f.types {
			t, err := parseWeightType(name)
			if err != nil {
				return b, usagef("--types: %w", err)
			}
			b.Types = append(b.Types, t)
		}
	}
	kvs, err := f.kvTypes()
	if err != nil {
		return b, err
	}
	for _, kv := range kvs {
		cfg := engine.Config{KV: kv}
		b.KV = append(b.KV, measure.KV{Name: kv.String(), Type: cfg.KVTypes()})
	}
	return b, nil
}
