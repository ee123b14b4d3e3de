package convert

import "slices"

var llama4 = family{
	arch:  "llama4",
	names: "Llama4ForCausalLM Llama4ForConditionalGeneration",
	rules: rules{
		{"post_attention_layernorm", "ffn_norm", nil},
		{"feed_forward.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight", then(transpose, halves)},
		{"feed_forward.experts.down_proj", "ffn_down_exps.weight", transpose},
		{"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp", nil},
		{"feed_forward.shared_expert.up_proj", "ffn_up_shexp", nil},
		{"feed_forward.shared_expert.down_proj", "ffn_down_shexp", nil},
	}.And(feedForward, ends, attention), // whose channels are in pairs
	settings: settings{
		{"feed_forward_length", 'n', "intermediate_size_mlp"},
		{"expert_feed_forward_length", 'n', "intermediate_size"},
		{"interleave_moe_layer_step", 'n', "interleave_moe_layer_step"},
	},
	keys: func(k *keys) {
		commonKeys(k)
		if k.has("layer_types") && !slices.Contains(k.typesOf("full_attention"), false) {
			k.n("attention.sliding_window", 0) // not even chunks
		}
	},
	extra: llama3Factors,
}
