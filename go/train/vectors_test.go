package train_test

import (
	"math/rand/v2"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/train"
)

const topics = 12

// questions are pairs for Contrast: a question has words of some topics, in words that are asked with, and its answer has words of the same
// topics, in others. Nothing but the pairs says which words belong together.
func questions(b *bench, n int, seed uint64) (texts []model.Text) {
	rng := rand.New(rand.NewPCG(seed, 9))
	for range n {
		var q, a model.Text
		for _, topic := range rng.Perm(topics)[:3] {
			q.Tokens = append(q.Tokens, int32(10+topic))
			a.Tokens = append(a.Tokens, int32(10+topics+topic))
		}
		texts = append(texts, q, a)
	}
	return texts
}

// An encoder learns which answers belong to which questions, and finds those of others that it was not trained on.
func TestContrastRanksBetter(t *testing.T) {
	f, err := model.OpenFile(testdata.Path(t, "archs/bert.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	c := train.Config{Steps: 120, Rate: 0.005, Warmup: 5, Seed: 2, Objective: train.Contrast{Temperature: 0.1}}
	of := model.TrainerConfig{MaxTokens: 1024, Pooling: nn.PoolMean}
	b := openFile(t, f, 2, of, c, func(b *bench) []model.Text { return questions(b, 200, 1) })
	held := questions(b, 16, 77)
	before, err := b.Measure(held, nil)
	if err != nil {
		t.Fatal(err)
	}
	steps(t, b, c.Steps)
	after, err := b.Measure(held, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v before, %+v after", before, after)
	if before.Right > 0.3 || after.Right < 0.75 || after.Weight != 16 {
		t.Errorf("%.2f of the answers were found before, %.2f after", before.Right, after.Right)
	}
}
