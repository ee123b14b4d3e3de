package family

import "github.com/quern-llm/quern/go/convert/lang"

var afmoe = lang.Family{
	Arch:  "afmoe",
	Names: "AfmoeForCausalLM",
	Rules: lang.Rules{
		{"self_attn.gate_proj", "attn_gate", nil},
		{"post_attention_layernorm", "post_attention_norm", nil},
		{"pre_mlp_layernorm", "ffn_norm", nil},
		{"post_mlp_layernorm", "post_ffw_norm", nil},
		{"mlp.router.gate", "ffn_gate_inp", nil},
		{"mlp.expert_bias", "exp_probs_b.bias", nil},
	}.And(ends, attention, dense, mixture),
	Settings: lang.Settings{
		{"expert_shared_count", 'n', "num_shared_experts"},
		{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
		{"leading_dense_block_count", 'n', "num_dense_layers"},
		{"expert_weights_scale", 'f', "route_scale"},
		{"attention.sliding_window", 'n', "sliding_window"},
	},
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		k.B("expert_weights_norm", true)
		windows(k, allBut(4))
		if !k.Flag("mup_enabled") {
			k.F("embedding_scale", 1)
		}
	},
}
