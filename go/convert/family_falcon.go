package convert

var falcon = family{
	arch:  "falcon",
	names: "FalconForCausalLM RWForCausalLM",
	rules: rules{
		{"self_attention.query_key_value", "attn_qkv", then(groups, together)},
		{"ln_attn", "attn_norm_2", nil},
		{"ln_mlp", "attn_norm", nil},
	}.And(gpt),
	keys: func(k *keys) {
		k.n("context_length", k.countOr("max_position_embeddings", 2048))
		k.n("feed_forward_length", k.countOr("ffn_hidden_size", 4*k.count("hidden_size")))
		k.n("attention.head_count_kv", groupsOf(k.config))
		if k.flag("alibi") {
			k.fail("alibi is true, want a model with rotations")
		}
	},
}
