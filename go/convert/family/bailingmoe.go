package family

import (
	"github.com/quern-llm/quern/go/convert/lang"
)

var bailingmoe = lang.Family{
	Arch:  "bailingmoe",
	Names: "BailingMoeForCausalLM",
	Rules: lang.Rules{
		{"attention.query_key_value", "attn_q attn_k attn_v", lang.Then(packed, paired)},
	}.And(bailing, ends, dense, mixture),
	Settings: routedSettings,
	Keys: func(k *lang.Keys) {
		unscaled(k)
		k.Want("norm_head", "false")
	},
}

// bailing is the attention of Ling, beside its queries, keys and values.
var bailing = lang.Rules{
	{"word_embeddings", "token_embd", nil},
	{"attention.dense", "attn_output", nil},
	{"input_layernorm", "attn_norm", nil},
}
