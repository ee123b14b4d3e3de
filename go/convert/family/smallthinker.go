package family

import "github.com/quern-llm/quern/go/convert/lang"

var smallthinker = lang.Family{
	Arch:  "smallthinker",
	Names: "SmallThinkerForCausalLM",
	Rules: lang.Rules{
		{"block_sparse_moe.primary_router", "ffn_gate_inp", nil},
		{"block_sparse_moe.experts.*.gate", "ffn_gate_exps", nil},
		{"block_sparse_moe.experts.*.up", "ffn_up_exps", nil},
		{"block_sparse_moe.experts.*.down", "ffn_down_exps", nil},
	}.And(ends, attention, dense),
	Settings: lang.Settings{
		{"expert_count", 'n', "moe_num_primary_experts"},
		{"expert_used_count", 'n', "moe_num_active_primary_experts"},
		{"expert_feed_forward_length", 'n', "moe_ffn_hidden_size"},
		{"feed_forward_length", 'n', "moe_ffn_hidden_size"},
	},
	Keys: func(k *lang.Keys) {
		name := "sigmoid"
		if k.Flag("moe_primary_router_apply_softmax") {
			name = "softmax"
		}
		k.Gating(name)
		layout := k.Numbers("sliding_window_layout")
		for i, v := range layout {
			if (v == 0) != (i%4 == 0) {
				k.Fail("sliding_window_layout: layer %d is not as smallthinker has it, the first of four without a window", i)
			}
		}
		if len(layout) > 0 && k.Has("sliding_window_size") {
			k.N("attention.sliding_window", k.Count("sliding_window_size"))
		}
	},
	Activation: "relu",
}
