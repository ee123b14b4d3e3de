package convert

import "slices"

var afmoe = family{
	arch:  "afmoe",
	names: "AfmoeForCausalLM",
	rules: with(slices.Concat(ends, attention, dense, mixture),
		rule{"self_attn.gate_proj", "attn_gate", nil},
		rule{"post_attention_layernorm", "post_attention_norm", nil},
		rule{"pre_mlp_layernorm", "ffn_norm", nil},
		rule{"post_mlp_layernorm", "post_ffw_norm", nil},
		rule{"mlp.router.gate", "ffn_gate_inp", nil},
		rule{"mlp.expert_bias", "exp_probs_b.bias", nil}),
	settings: []setting{
		{"expert_shared_count", 'n', "num_shared_experts"},
		{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
		{"leading_dense_block_count", 'n', "num_dense_layers"},
		{"expert_weights_norm", 'b', "route_norm"},
		{"expert_weights_scale", 'f', "route_scale"},
		{"attention.sliding_window", 'n', "sliding_window"},
	},
	keys: func(k *keys) {
		commonKeys(k)
		k.gating("")
	},
}
