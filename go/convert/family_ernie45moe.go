package convert

var ernie45moe = family{
	arch:  "ernie4_5-moe",
	names: "Ernie4_5_MoeForCausalLM",
	rules: rules{
		{"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias", squeeze},
	}.And(ends, attention, dense, mixture),
	settings: settings{
		{"expert_count", 'n', "moe_num_experts"},
		{"expert_used_count", 'n', "moe_k"},
		{"interleave_moe_layer_step", 'n', "moe_layer_interval"},
		{"leading_dense_block_count", 'n', "moe_layer_start_index"},
		{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
		{"expert_shared_count", 'n', "moe_num_shared_experts"},
	},
	keys: func(k *keys) {
		if n := k.countOr("moe_num_shared_experts", 0); n > 0 {
			k.n("expert_shared_feed_forward_length", n*k.count("moe_intermediate_size"))
		}
	},
	skip: []string{"model.mtp_"},
}
