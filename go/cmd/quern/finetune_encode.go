package main

import (
	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/tokenizer"
)

// encoderOf returns what makes tokens of texts as "quern embed", "rerank" and "classify" do. Queries and documents that are
// compared have what the model was trained to have before them, if it says so.
func encoderOf(head *launch.Head) *finetune.Encoder {
	prompts := &head.Config.Prompts
	after := func(before string) func(text string) []int32 {
		return func(text string) []int32 {
			return head.Tokenizer.Begin(head.Tokenizer.Encode(before+text, tokenizer.Options{ParseSpecial: true}))
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
	pairs := pairsOf(head)
	return &finetune.Encoder{
		Config: head.Config, Query: named("query"), Document: named("document", "passage"), Text: after(""),
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
