package finetune_test

import (
	"testing"

	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/train/data"
)

// Smaller chunks make the same steps, and an example that is longer still fits.
func TestLimitOfChunks(t *testing.T) {
	for _, c := range []struct{ length, limit, want int }{{100, 512, 512}, {100, 1 << 20, 2048}, {700, 512, 704}} {
		var texts []model.Text
		for range 2000 {
			texts = append(texts, model.Text{Tokens: make([]int32, c.length), Weights: make([]float32, c.length)})
		}
		all := data.Counts{Examples: len(texts), Tokens: c.length * len(texts)}
		p, err := finetune.NewTextPlan(texts, nil, all, data.Counts{}, 4096, finetune.Defaults())
		if err != nil {
			t.Fatal(err)
		}
		before := p.Config
		if err := p.Limit(c.limit); err != nil {
			t.Fatal(err)
		}
		tokens := p.MaxTokens * p.Config.Chunks
		if p.MaxTokens != c.want || tokens < 3000 || tokens > 9000 || p.Config.Steps < before.Steps/2 || p.Config.Steps > before.Steps*2 {
			t.Errorf("%+v: chunks of %d tokens, %d of them a step, %d steps; before: %+v", c, p.MaxTokens, p.Config.Chunks, p.Config.Steps, before)
		}
	}
}
