package verify

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/train"
)

// What a row may train.
const (
	adapter = "adapter" // a LoRA adapter of all matrices that have one
	turned  = "dora"    // the same, with magnitudes
	weights = "weights" // all weights, rounded to the types of the file
)

const (
	trainingSteps = 2
	repeats       = 3 // of the tokens in the longer of two texts, which then has more than a block of keys
)

// Train trains a model on the tokens, repeated and once, and returns a row with a hash of the numbers after some steps. It
// closes the file.
func Train(ctx context.Context, name string, f *model.File, what string, tokens []int32, c engine.DeviceConfig) (Row, error) {
	defer f.Close()
	r := Row{Model: name, Training: what, KV: kvcache.F16.String(), File: fileHash(f), Prompt: tokens}
	pool, err := kernel.NewPool(max(c.Threads, 1), nil)
	if err != nil {
		return r, err
	}
	defer pool.Close()
	budget := mem.NewBudget(1<<30, "the check of training")
	m, tuned, free, err := trained(f, what, pool, budget)
	if err != nil {
		return r, err
	}
	defer free()
	t, err := model.NewTrainer(m, tuned, model.TrainerConfig{Pool: pool, Budget: budget, MaxTokens: repeats * max(len(tokens), 1)})
	if err != nil {
		return r, err
	}
	defer t.Close()
	var texts []model.Text
	for _, ids := range [][]int32{slices.Repeat(tokens, repeats), tokens} {
		text := model.Text{Tokens: ids, Weights: make([]float32, len(ids))}
		for i := range text.Weights {
			text.Weights[i] = 1
		}
		texts = append(texts, text)
	}
	run, err := train.New(t, pool, budget, texts, train.Config{Steps: trainingSteps, Chunks: 2, Rate: 1e-3, Clip: 1, MuonRate: muon(what)})
	if err != nil {
		return r, err
	}
	defer run.Close()
	for range trainingSteps {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		if _, err := run.Next(nil); err != nil {
			return r, err
		}
	}
	sum := hashOf(tuned.Numbers())
	r.Logits = hex.EncodeToString(sum[:])
	return r, nil
}

// muon returns the rate of the matrices of layers where all weights are trained.
func muon(what string) float64 {
	if what == weights {
		return 0.01
	}
	return 0
}

// trained allocates what is trained of a model.
func trained(f *model.File, what string, pool *kernel.Pool, budget *mem.Budget) (_ *model.Model, _ *model.Tuned, free func(), err error) {
	kv := kernel.KVTypes{K: kernel.KVF16, V: kernel.KVF16}
	switch what {
	case weights:
		a, err := model.NewWhole(f, model.Whole{KV: kv, Type: func(t *gguf.Tensor) gguf.Type { return t.Type }}, pool, budget)
		if err != nil {
			return nil, nil, nil, err
		}
		return a.Model(), a, a.Close, nil
	case adapter, turned:
		s, err := model.NewSurvey(f, kv, 0)
		if err != nil {
			return nil, nil, nil, err
		}
		m, err := s.Load(model.Options{Pack: pool.PackInto, Budget: budget, Residency: model.Mapped})
		if err != nil {
			return nil, nil, nil, err
		}
		a, err := model.NewTuned(m, model.LoRA{Rank: 4, Alpha: 8, Magnitudes: what == turned, Seed: 1}, budget)
		if err != nil {
			m.Close()
			return nil, nil, nil, err
		}
		return m, a, func() { a.Close(); m.Close() }, nil
	}
	return nil, nil, nil, fmt.Errorf("a row that trains %q, want %s, %s or %s", what, adapter, turned, weights)
}
