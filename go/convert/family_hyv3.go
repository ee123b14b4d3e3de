package convert

var hyv3 = family{
	arch:  "hy_v3",
	names: "HYV3ForCausalLM",
	rules: rules{
		{"mlp.router.gate", "ffn_gate_inp", nil},
		{"mlp.expert_bias", "exp_probs_b", nil},
		{"final_layernorm", "nextn.shared_head_norm", nil},
	}.And(predicting, ends, attention, dense, mixture),
	settings: settings{{"expert_feed_forward_length", 'n', "moe_intermediate_size expert_hidden_dim"}},
	keys: func(k *keys) {
		k.n("expert_shared_feed_forward_length", k.count("moe_intermediate_size expert_hidden_dim")*k.countOr("num_shared_experts", 1))
		k.b("expert_weights_norm", k.flagOr("route_norm", true))
		k.f("expert_weights_scale", k.numberOr("router_scaling_factor", 1))
		k.n("expert_gating_func", 2)
		further(k)
	},
}
