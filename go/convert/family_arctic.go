package convert

import "slices"

var arctic = family{
	arch:  "arctic",
	names: "ArcticForCausalLM",
	rules: with(slices.Concat(ends, pairs, blockSparse),
		rule{"post_attention_layernorm", "ffn_norm_exps", nil},
		rule{"residual_layernorm", "ffn_norm", nil},
		rule{"residual_mlp.w1", "ffn_gate", nil},
		rule{"residual_mlp.w2", "ffn_down", nil},
		rule{"residual_mlp.w3", "ffn_up", nil}),
	keys: commonKeys,
}
