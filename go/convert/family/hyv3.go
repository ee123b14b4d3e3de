package family

import "github.com/quern-llm/quern/go/convert/lang"

var hyv3 = lang.Family{
	Arch:  "hy_v3",
	Names: "HYV3ForCausalLM",
	Rules: lang.Rules{
		{"mlp.router.gate", "ffn_gate_inp", nil},
		{"mlp.expert_bias", "exp_probs_b", nil},
		{"final_layernorm", "nextn.shared_head_norm", nil},
	}.And(predicting, ends, attention, dense, mixture),
	Settings: lang.Settings{{"expert_feed_forward_length", 'n', "moe_intermediate_size expert_hidden_dim"}},
	Keys: func(k *lang.Keys) {
		k.N("expert_shared_feed_forward_length",
			k.Count("moe_intermediate_size expert_hidden_dim")*k.CountOr("num_shared_experts", 1))
		k.B("expert_weights_norm", k.FlagOr("route_norm", true))
		k.F("expert_weights_scale", k.NumberOr("router_scaling_factor", 1))
		k.N("expert_gating_func", 2)
		further(k)
	},
}
