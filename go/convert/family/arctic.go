package family

import "github.com/quern-llm/quern/go/convert/lang"

var arctic = lang.Family{
	Arch:  "arctic",
	Names: "ArcticForCausalLM",
	Rules: lang.Rules{
		{"post_attention_layernorm", "ffn_norm_exps", nil},
		{"residual_layernorm", "ffn_norm", nil},
		{"residual_mlp.w1", "ffn_gate", nil},
		{"residual_mlp.w2", "ffn_down", nil},
		{"residual_mlp.w3", "ffn_up", nil},
	}.And(ends, pairs, blockSparse),
	Keys: commonKeys,
}
