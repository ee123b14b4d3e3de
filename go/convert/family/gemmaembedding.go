package family

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var gemmaEmbedding = lang.Family{
	Arch:     "gemma-embedding",
	Names:    "Gemma3TextModel",
	Rules:    lang.PlusOne(gemmaRules),
	Settings: lang.Settings{{"attention.sliding_window", 'n', "sliding_window"}},
	Keys: func(k *lang.Keys) {
		gemma3Keys(k)
		k.B("attention.causal", false)
		k.N("pooling_type", 1)
	},
	Vocab:      noSpace,
	Activation: "gelu_new",
	Change: func(c *hf.Config, f *lang.Family) *lang.Family {
		if c.FlagOr("use_bidirectional_attention", true) {
			return f
		}
		return &gemma3 // without its output matrix, which is the embedding
	},
}
