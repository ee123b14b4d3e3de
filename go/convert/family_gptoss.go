package convert

import "slices"

var gptoss = family{
	arch:  "gpt-oss",
	names: "GptOssForCausalLM",
	rules: with(slices.Concat(ends, attention, dense),
		rule{"post_attention_layernorm", "post_attention_norm", nil},
		rule{"self_attn.sinks", "attn_sinks.weight", nil},
		rule{"mlp.router", "ffn_gate_inp", nil},
		rule{"mlp.experts.gate_up_proj_blocks mlp.experts.gate_up_proj_scales", "ffn_gate_exps.weight ffn_up_exps.weight", mxfp4Turns},
		rule{"mlp.experts.down_proj_blocks mlp.experts.down_proj_scales", "ffn_down_exps.weight", mxfp4},
		rule{"mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias ffn_up_exps.bias", turnsLast},
		rule{"mlp.experts.down_proj_bias", "ffn_down_exps.bias", nil},
		rule{"mlp.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight", then(transpose, turns)},
		rule{"mlp.experts.down_proj", "ffn_down_exps.weight", transpose}),
	settings: []setting{
		{"attention.sliding_window", 'n', "sliding_window"},
		{"expert_feed_forward_length", 'n', "intermediate_size"},
	},
}
