package convert

var cohere2moe = family{
	arch:  "cohere2moe",
	names: "Cohere2MoeForCausalLM",
	rules: predicting.And(ends, attention, dense, mixture),
	settings: settings{
		{"feed_forward_length", 'n', "prefix_dense_intermediate_size intermediate_size"},
		{"expert_feed_forward_length", 'n', "intermediate_size"},
		{"leading_dense_block_count", 'n', "first_k_dense_replace"},
		{"expert_weights_norm", 'b', "norm_topk_prob"},
		{"logit_scale", 'f', "logit_scale"},
		{"attention.sliding_window", 'n', "sliding_window"},
	},
	keys: func(k *keys) {
		commonKeys(k)
		k.set("rope.scaling.type", "none")
		k.bs("attention.sliding_window_pattern", k.typesOf("sliding_attention"))
		k.gating("sigmoid")
		k.want("shared_expert_combination_strategy", "average")
		if k.has("mlp_layer_types") {
			k.n("leading_dense_block_count", k.leading())
		}
		if n := k.countOr("num_shared_experts", 0); n > 0 {
			k.n("expert_shared_count", n)
			k.n("expert_shared_feed_forward_length", n*k.count("intermediate_size"))
		}
		further(k)
	},
}
