package launch

import (
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

// Pair encodes a query with a document, and says where the second text begins, 0 where it is all one.
func (h *Head) Pair(query, document string) (ids []int32, second int, err error) {
	pair, err := h.Pairs().Pairing(query)
	if err != nil {
		return nil, 0, err
	}
	x, err := pair(document)
	return x.IDs, x.Second, err
}
