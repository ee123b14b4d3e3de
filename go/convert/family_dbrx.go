package convert

var dbrx = family{
	arch:  "dbrx",
	names: "DbrxForCausalLM",
	rules: rules{
		{"wte", "token_embd", nil},
		{"norm_f", "output_norm", nil},
		{"lm_head", "output", nil},
		{"norm_attn_norm.norm_1", "attn_norm", nil},
		{"norm_attn_norm.norm_2", "attn_output_norm", nil},
		{"norm_attn_norm.attn.Wqkv", "attn_qkv", nil},
		{"norm_attn_norm.attn.out_proj", "attn_output", nil},
		{"ffn.router.layer", "ffn_gate_inp", nil},
		{"ffn.experts.mlp.w1", "ffn_gate_exps.weight", byExpert},
		{"ffn.experts.mlp.v1", "ffn_up_exps.weight", byExpert},
		{"ffn.experts.mlp.w2", "ffn_down_exps.weight", then(byExpert, transpose)},
	},
	keys: func(k *keys) {
		a, f := k.within("attn_config"), k.within("ffn_config")
		k.n("context_length", k.count("max_seq_len"))
		k.n("feed_forward_length", f.count("ffn_hidden_size"))
		k.n("attention.head_count_kv", a.count("kv_n_heads"))
		k.f("rope.freq_base", a.number("rope_theta"))
		k.f("attention.clamp_kqv", a.number("clip_qkv"))
		k.n("expert_count", f.count("moe_num_experts"))
		k.n("expert_used_count", f.count("moe_top_k"))
		k.f("attention.layer_norm_epsilon", 1e-5)
		k.take(a)
		k.take(f)
	},
}
