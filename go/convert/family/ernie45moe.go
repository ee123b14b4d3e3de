package family

import "github.com/quern-llm/quern/go/convert/lang"

var ernie45moe = lang.Family{
	Arch:  "ernie4_5-moe",
	Names: "Ernie4_5_MoeForCausalLM",
	Rules: lang.Rules{
		{"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias", lang.Squeeze},
	}.And(ends, attention, dense, mixture),
	Settings: lang.Settings{
		{"expert_count", 'n', "moe_num_experts"},
		{"expert_used_count", 'n', "moe_k"},
		{"interleave_moe_layer_step", 'n', "moe_layer_interval"},
		{"leading_dense_block_count", 'n', "moe_layer_start_index"},
		{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
		{"expert_shared_count", 'n', "moe_num_shared_experts"},
	},
	Keys: func(k *lang.Keys) {
		if n := k.CountOr("moe_num_shared_experts", 0); n > 0 {
			k.N("expert_shared_feed_forward_length", n*k.Count("moe_intermediate_size"))
		}
	},
	Skip:  []string{"model.mtp_"},
	Fixed: lang.Fixed{{"moe_norm_min", "1e-12"}},
}
