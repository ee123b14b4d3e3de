package convert

var plm = family{
	arch:     "plm",
	names:    "PLMForCausalLM",
	rules:    rules{{"self_attn.kv_b_proj", "attn_kv_b", nil}}.And(latent, ends, attention, dense),
	settings: settings{{"attention.kv_lora_rank", 'n', "kv_lora_rank"}, {"rope.dimension_count", 'n', "qk_rope_head_dim"}},
	keys: func(k *keys) {
		vocabSize(k)
		k.n("attention.key_length", k.count("qk_nope_head_dim")+k.count("qk_rope_head_dim"))
		k.n("attention.value_length", k.count("v_head_dim"))
	},
}
