package convert

var starcoder = family{
	arch:  "starcoder",
	names: "GPTBigCodeForCausalLM",
	rules: gpt,
	keys: func(k *keys) {
		k.n("feed_forward_length", k.countOr("n_inner", 4*k.count("n_embd")))
		if k.flagOr("multi_query", true) {
			k.n("attention.head_count_kv", 1)
		}
	},
}

var gpt2 = family{
	arch:  "gpt2",
	names: "GPT2LMHeadModel",
	rules: rules{ // whose matrices are the other way round
		{"wte", "token_embd", nil},
		{"wpe", "position_embd", nil},
		{"ln_f", "output_norm", nil},
		{"lm_head", "output", nil},
		{"ln_1", "attn_norm", nil},
		{"ln_2", "ffn_norm", nil},
		{"attn.c_attn.weight", "attn_qkv.weight", transpose},
		{"attn.c_attn", "attn_qkv", nil},
		{"attn.c_proj.weight", "attn_output.weight", transpose},
		{"attn.c_proj", "attn_output", nil},
		{"mlp.c_fc.weight", "ffn_up.weight", transpose},
		{"mlp.c_fc", "ffn_up", nil},
		{"mlp.c_proj.weight", "ffn_down.weight", transpose},
		{"mlp.c_proj", "ffn_down", nil},
		{"attn.bias", "", nil},
		{"attn.masked_bias", "", nil},
	},
	keys: func(k *keys) {
		k.n("feed_forward_length", k.countOr("n_inner", 4*k.count("n_embd")))
	},
}
