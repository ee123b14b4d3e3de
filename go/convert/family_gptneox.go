package convert

var gptneox = family{
	arch:  "gptneox",
	names: "GPTNeoXForCausalLM",
	rules: rules{
		{"embed_in", "token_embd", nil},
		{"embed_out", "output", nil},
		{"final_layer_norm", "output_norm", nil},
		{"input_layernorm", "attn_norm", nil},
		{"post_attention_layernorm", "ffn_norm", nil},
		{"attention.query_key_value", "attn_qkv", threes},
		{"attention.dense", "attn_output", nil},
		{"mlp.dense_h_to_4h", "ffn_up", nil},
		{"mlp.dense_4h_to_h", "ffn_down", nil},
		{"attention.bias", "", nil},
		{"attention.masked_bias", "", nil},
	},
	keys: func(k *keys) {
		k.n("rope.dimension_count", int(float64(k.headDim())*k.partial(0.25)))
		k.b("use_parallel_residual", !k.has("use_parallel_residual") || k.flag("use_parallel_residual"))
	},
	prefix: "gpt_neox.",
}
