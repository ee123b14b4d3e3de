package family

import "github.com/quern-llm/quern/go/convert/lang"

var cohere2moe = lang.Family{
	Arch:  "cohere2moe",
	Names: "Cohere2MoeForCausalLM",
	Rules: predicting.And(ends, attention, dense, mixture),
	Settings: lang.Settings{
		{"feed_forward_length", 'n', "prefix_dense_intermediate_size intermediate_size"},
		{"expert_feed_forward_length", 'n', "intermediate_size"},
		{"leading_dense_block_count", 'n', "first_k_dense_replace"},
		{"logit_scale", 'f', "logit_scale"},
		{"attention.sliding_window", 'n', "sliding_window"},
	},
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		k.Set("rope.scaling.type", "none")
		k.Bs("attention.sliding_window_pattern", k.TypesOf("sliding_attention"))
		norm := k.FlagOr("norm_topk_prob", true)
		switch fn := k.Text("expert_selection_fn"); fn {
		case "", "softmax": // of the chosen experts
			k.N("expert_gating_func", 3)
		case "sigmoid":
			k.N("expert_gating_func", 2)
			k.B("expert_weights_norm", norm)
		default:
			k.Fail("expert_selection_fn: %.40q, want softmax or sigmoid", fn)
		}
		k.Want("prefix_dense_sliding_window_pattern", "1")
		k.Want("shared_expert_combination_strategy", "average")
		if k.Has("mlp_layer_types") {
			k.N("leading_dense_block_count", k.Leading())
		}
		if n := k.CountOr("num_shared_experts", 0); n > 0 {
			k.N("expert_shared_count", n)
			k.N("expert_shared_feed_forward_length", n*k.Count("intermediate_size"))
		}
		further(k)
	},
}
