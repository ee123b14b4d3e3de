package convert

var exaone = family{
	arch:  "exaone",
	names: "ExaoneForCausalLM",
	rules: rules{
		{"attn.attention.q_proj", "attn_q", nil},
		{"attn.attention.k_proj", "attn_k", nil},
		{"attn.attention.v_proj", "attn_v", nil},
		{"attn.attention.out_proj", "attn_output", nil},
		{"mlp.c_fc_0", "ffn_gate", nil},
		{"mlp.c_fc_1", "ffn_up", nil},
	}.And(gpt),
	settings: settings{{"attention.layer_norm_rms_epsilon", 'f', "layer_norm_epsilon"}},
	keys: func(k *keys) {
		rotating(k, 1)
		k.drop("attention.layer_norm_epsilon")
		k.want("activation_function", "silu")
	},
	extra: llama3Factors,
}

var exaonemoe = family{
	arch:     "exaone-moe",
	names:    "ExaoneMoEForCausalLM ExaoneMoeForCausalLM",
	rules:    rules{{"mlp.e_score_correction_bias", "exp_probs_b.bias", nil}}.And(predicting, ends, attention, dense, mixture),
	settings: routedSettings.And(settings{{"attention.sliding_window", 'n', "sliding_window"}}),
	keys: func(k *keys) {
		commonKeys(k)
		k.n("leading_dense_block_count", k.countOr("first_k_dense_replace first_last_k_dense_replace", 0))
		k.n("expert_shared_feed_forward_length", k.count("moe_intermediate_size")*k.countOr("num_shared_experts", 1))
		k.set("rope.scaling.type", "none")
		k.gating("sigmoid")
		windows := k.typesOf("sliding_attention")
		further(k)
		windows = append(windows, make([]bool, min(k.countOr("num_nextn_predict_layers", 0), mostNext))...)
		k.bs("attention.sliding_window_pattern", windows)
	},
	rename: nextOfQwen,
}
