package convert

var bailingmoe = family{
	arch:  "bailingmoe",
	names: "BailingMoeForCausalLM",
	rules: rules{
		{"attention.query_key_value", "attn_q attn_k attn_v", then(packed, each3(permute((*config).heads), permute((*config).headsKV), nil))},
	}.And(bailing, ends, dense, mixture),
	settings: routedSettings,
	keys: func(k *keys) {
		unscaled(k)
		k.want("norm_head", "false")
	},
}

// bailing is the attention of Ling.
var bailing = rules{
	{"word_embeddings", "token_embd", nil},
	{"attention.dense", "attn_output", nil},
	{"input_layernorm", "attn_norm", nil},
}
