package convert

var arctic = family{
	arch:  "arctic",
	names: "ArcticForCausalLM",
	rules: rules{
		{"post_attention_layernorm", "ffn_norm_exps", nil},
		{"residual_layernorm", "ffn_norm", nil},
		{"residual_mlp.w1", "ffn_gate", nil},
		{"residual_mlp.w2", "ffn_down", nil},
		{"residual_mlp.w3", "ffn_up", nil},
	}.And(ends, pairs, blockSparse),
	keys: commonKeys,
}
