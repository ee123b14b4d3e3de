package family

import "github.com/quern-llm/quern/go/convert/lang"

var gptoss = lang.Family{
	Arch:  "gpt-oss",
	Names: "GptOssForCausalLM",
	Rules: lang.Rules{
		{"post_attention_layernorm", "post_attention_norm", nil},
		{"self_attn.sinks", "attn_sinks.weight", nil},
		{"mlp.router", "ffn_gate_inp", nil},
		{"mlp.experts.gate_up_proj_blocks mlp.experts.gate_up_proj_scales", "ffn_gate_exps.weight ffn_up_exps.weight",
			lang.MXFP4Turns},
		{"mlp.experts.down_proj_blocks mlp.experts.down_proj_scales", "ffn_down_exps.weight", lang.MXFP4},
		{"mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias ffn_up_exps.bias", lang.TurnsLast},
		{"mlp.experts.down_proj_bias", "ffn_down_exps.bias", nil},
		{"mlp.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight", lang.Then(lang.Transpose, lang.Turns)},
		{"mlp.experts.down_proj", "ffn_down_exps.weight", lang.Transpose},
	}.And(ends, attention, dense),
	Settings: lang.Settings{
		{"attention.sliding_window", 'n', "sliding_window"},
		{"expert_feed_forward_length", 'n', "intermediate_size"},
	},
	Keys:  func(k *lang.Keys) { windows(k, allBut(2)) },
	Fixed: lang.Fixed{{"swiglu_alpha", "1.702"}, {"swiglu_limit", "7"}},
}
