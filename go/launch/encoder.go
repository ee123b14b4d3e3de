package launch

import (
	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/rerank"
	"github.com/quern-llm/quern/go/tokenizer"
)

// Pairs returns what makes tokens of pairs of texts.
func (h *Head) Pairs() *rerank.Model {
	return &rerank.Model{Metadata: h.File.GGUF, Tokenizer: h.Tokenizer,
		Encode: func(text string, o tokenizer.Options, _ int) ([]int32, error) {
			return h.Tokenizer.Encode(text, o), nil
		}}
}

// Encoder returns what makes tokens of texts as "quern embed", "rerank" and "classify" do. Queries and documents that are
// compared have what the model was trained to have before them, if it says so.
func (h *Head) Encoder() *finetune.Encoder {
	prompts := &h.Config.Prompts
	after := func(before string) func(text string) []int32 {
		return func(text string) []int32 {
			return h.Tokenizer.Begin(h.Tokenizer.Encode(before+text, tokenizer.Options{ParseSpecial: true}))
		}
	}
	named := func(names ...string) func(text string) []int32 {
		for _, name := range append(names, prompts.Default) {
			if before, ok := prompts.Text(name); ok {
				return after(before)
			}
		}
		return after("")
	}
	pairs := h.Pairs()
	return &finetune.Encoder{
		Config: h.Config, Query: named("query"), Document: named("document", "passage"), Text: after(""),
		Pair: func(query, document string) ([]int32, int, error) {
			pair, err := pairs.Pairing(query)
			if err != nil {
				return nil, 0, err
			}
			x, err := pair(document)
			return x.IDs, x.Second, err
		},
	}
}
