package train_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/train"
)

// preferences are pairs: each sentence, and one that begins as it does and goes on as the next.
func preferences(b *bench) (texts []model.Text) {
	all := byHeart(b)
	for i, x := range all {
		next := all[(i+1)%len(all)]
		worse := model.Text{Tokens: slices.Concat(x.Tokens[:4], next.Tokens[4:]), Weights: next.Weights}
		texts = append(texts, x, worse)
	}
	return texts
}

// A run comes to prefer what is to be preferred. Before it, DPO sees no difference to the model itself.
func TestPrefers(t *testing.T) {
	for _, o := range []train.Objective{train.DPO{}, train.DPO{Mean: true, Beta: 1}, train.ORPO{Beta: 0.5}} {
		b := open(t, 2, train.Config{Steps: 10, Chunks: 5, Rate: 0.01, Warmup: 2, Seed: 1, Objective: o}, preferences)
		before, err := b.Measure(preferences(b), nil)
		if err != nil {
			t.Fatal(err)
		}
		others := slices.Clone(preferences(b))
		slices.Reverse(others)
		if s, err := b.Measure(others, nil); err != nil || before.Loss == math.Ln2 && s.Loss != math.Ln2 {
			t.Errorf("%T: %+v of other pairs, %v", o, s, err)
		}
		steps(t, b, 10)
		after, err := b.Measure(preferences(b), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%T: %+v before, %+v after", o, before, after)
		if _, ok := o.(train.ORPO); !ok && (before.Loss != math.Ln2 || before.Right != 0 || before.Margin != 0) {
			t.Errorf("%+v of pairs of which the adapter says nothing yet", before)
		}
		if after.Right != 1 || after.Margin < before.Margin+0.5 || after.Loss > before.Loss*0.75 || after.Weight != 10 {
			t.Errorf("%T: %+v before, %+v after", o, before, after)
		}
	}
}

// Gradients through objectives and whole models are what differences of their losses are.
func TestGradientOfObjectives(t *testing.T) {
	labelled := func(labels ...float32) func(*bench) []model.Text {
		return func(b *bench) []model.Text {
			all := someTexts(b)
			for i := range all {
				all[i].Labels = labels
			}
			return all
		}
	}
	for _, c := range []struct {
		o       train.Objective
		path    string
		pooling nn.Pooling
		texts   func(*bench) []model.Text
		share   float64 // of the loss's change by which the two may differ
	}{
		{train.DPO{Beta: 0.05}, "llama", nn.PoolNone, someTexts, 0.01},
		{train.ORPO{Beta: 2}, "llama", nn.PoolNone, someTexts, 0.01},
		{train.Contrast{Temperature: 0.3}, "bert", nn.PoolMean, someTexts, 0.02},
		{train.Contrast{Texts: 3, Temperature: 1}, "qwen3", nn.PoolLast, someTexts, 0.02},
		{train.Triplet{Margin: 2}, "modern-bert", nn.PoolCLS, someTexts, 0.02},
		{train.MarginMSE{}, "gemma-embedding", nn.PoolMean, labelled(0.5), 0.02},
		{train.Similarity{}, "nomic-bert", nn.PoolMean, labelled(0.7), 0.02},
	} {
		c2 := train.Config{Steps: 2, Rate: 0.002, Seed: 1, Objective: c.o}
		f, err := model.OpenFile(testdata.Path(t, "archs/"+c.path+".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		b := openFile(t, f, 1, model.TrainerConfig{MaxTokens: 256, Pooling: c.pooling}, c2, c.texts)
		steps(t, b, 2)
		texts := c.texts(b)
		chunk := train.Chunk{Texts: texts}
		if chunk.Base, err = b.trainer.Outcomes(texts, true, nil); err != nil {
			t.Fatal(err)
		}
		err = b.trainer.Descend(texts, func(outcomes [][]float64) ([][]float64, error) {
			chunk.Outcomes = outcomes
			return c.o.Judge(chunk).Gradients, nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		gradient, numbers, length := slices.Clone(b.trainer.Adapter.Gradient()), b.State().Numbers, 0.0
		for _, g := range gradient {
			length += float64(g) * float64(g)
		}
		length = math.Sqrt(length)
		was := slices.Clone(numbers)
		loss := func(h float64) float64 {
			for i, g := range gradient {
				numbers[i] = was[i] + float32(h*float64(g)/length)
			}
			if err := b.trainer.Adapter.Moved(b.pool); err != nil {
				t.Fatal(err)
			}
			s, err := b.Measure(texts, nil)
			if err != nil {
				t.Fatal(err)
			}
			return s.Loss * s.Weight
		}
		const step = 0.02
		measured := (loss(step) - loss(-step)) / (2 * step)
		t.Logf("%T through %s: %v measured, %v computed", c.o, c.path, measured, length)
		if math.Abs(measured-length) > c.share*length {
			t.Errorf("%T through %s: %v measured, %v computed", c.o, c.path, measured, length)
		}
	}
}

// someTexts are texts of random tokens, all of which are to be learnt.
func someTexts(b *bench) (texts []model.Text) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 6 {
		x := model.Text{Tokens: make([]int32, 9+i), Weights: slices.Repeat([]float32{1}, 9+i)}
		for k := range x.Tokens {
			x.Tokens[k] = int32(rng.IntN(b.model.Config.NVocab))
		}
		texts = append(texts, x)
	}
	return texts
}

// Examples stay together in chunks, and those that do not fit are refused.
func TestExamplesFit(t *testing.T) {
	b := open(t, 1, train.Config{Steps: 1, Rate: 0.01, Objective: train.DPO{}}, preferences)
	long := model.Text{Tokens: make([]int32, 40), Weights: slices.Repeat([]float32{1}, 40)}
	for name, texts := range map[string][]model.Text{
		"odd": preferences(b)[:3], "none": nil, "long": {long, long}, "empty": {long, {}},
	} {
		if r, err := train.New(b.trainer, b.pool, b.budget, texts, b.Config()); err == nil {
			r.Close()
			t.Errorf("%s: no error", name)
		}
	}
}
