package convert

var mpt = family{
	arch:  "mpt",
	names: "MPTForCausalLM MptForCausalLM",
	rules: rules{
		{"norm_f", "output_norm", nil},
		{"norm_1", "attn_norm", nil},
		{"norm_2", "ffn_norm", nil},
		{"attn.Wqkv", "attn_qkv", nil},
		{"attn.out_proj", "attn_output", nil},
		{"attn.q_ln", "attn_q_norm", nil},
		{"attn.k_ln", "attn_k_norm", nil},
		{"ffn.up_proj", "ffn_up", nil},
		{"ffn.down_proj", "ffn_down", nil},
	}.And(gpt),
	keys: func(k *keys) {
		a := k.within("attn_config")
		k.n("context_length", k.count("max_seq_len"))
		k.n("feed_forward_length", int(k.numberOr("expansion_ratio", 4)*float64(k.count("d_model"))))
		if n := a.countOr("kv_n_heads", 0); n > 0 {
			k.n("attention.head_count_kv", n)
		}
		k.f("attention.layer_norm_epsilon", 1e-5)
		if a.has("clip_qkv") {
			k.f("attention.clamp_kqv", a.number("clip_qkv"))
		}
		bias := 0.0
		if a.flag("alibi") {
			bias = a.numberOr("alibi_bias_max", 8)
		}
		k.f("attention.max_alibi_bias", bias)
		k.take(a)
	},
}
