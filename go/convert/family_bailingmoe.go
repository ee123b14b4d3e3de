package convert

var bailingmoe = Family{
	Arch:  "bailingmoe",
	Names: "BailingMoeForCausalLM",
	Rules: Rules{
		{"attention.query_key_value", "attn_q attn_k attn_v", Then(packed, Each3(Permute((*Config).Heads), Permute((*Config).HeadsKV), nil))},
	}.And(bailing, ends, dense, mixture),
	Settings: routedSettings,
	Keys: func(k *Keys) {
		unscaled(k)
		k.Want("norm_head", "false")
	},
}

// bailing is the attention of Ling.
var bailing = Rules{
	{"word_embeddings", "token_embd", nil},
	{"attention.dense", "attn_output", nil},
	{"input_layernorm", "attn_norm", nil},
}
