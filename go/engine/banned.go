package engine

import (
	"slices"

	"github.com/quern-llm/quern/go/gguf"
)

// banned returns the tokens that the file declares as never generated, such as image placeholders of
// multimodal models. Ids outside the vocabulary are ignored.
func banned(f *gguf.File, nVocab int) ([]int32, error) {
	const key = "tokenizer.ggml.suppress_tokens"
	if _, ok := f.Value(key); !ok {
		return nil, nil
	}
	list, err := f.Ints(key)
	if err != nil {
		return nil, err
	}
	var ids []int32
	for _, id := range list {
		if id >= 0 && id < int64(nVocab) {
			ids = append(ids, int32(id))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
