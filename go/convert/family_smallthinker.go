package convert

var smallthinker = family{
	arch:  "smallthinker",
	names: "SmallThinkerForCausalLM",
	rules: rules{
		{"block_sparse_moe.primary_router", "ffn_gate_inp", nil},
		{"block_sparse_moe.experts.*.gate", "ffn_gate_exps", nil},
		{"block_sparse_moe.experts.*.up", "ffn_up_exps", nil},
		{"block_sparse_moe.experts.*.down", "ffn_down_exps", nil},
	}.And(ends, attention, dense),
	settings: settings{
		{"expert_count", 'n', "moe_num_primary_experts"},
		{"expert_used_count", 'n', "moe_num_active_primary_experts"},
		{"expert_feed_forward_length", 'n', "moe_ffn_hidden_size"},
		{"feed_forward_length", 'n', "moe_ffn_hidden_size"},
	},
	keys: func(k *keys) {
		name := "sigmoid"
		if k.flag("moe_primary_router_apply_softmax") {
			name = "softmax"
		}
		k.gating(name)
		layout := k.numbers("sliding_window_layout")
		for i, v := range layout {
			if (v == 0) != (i%4 == 0) {
				k.fail("sliding_window_layout: layer %d is not as smallthinker has it, the first of four without a window", i)
			}
		}
		if len(layout) > 0 && k.has("sliding_window_size") {
			k.n("attention.sliding_window", k.count("sliding_window_size"))
		}
	},
}
