package convert

var qwen = family{
	arch:  "qwen",
	names: "QWenLMHeadModel",
	rules: rules{
		{"mlp.w1", "ffn_up", nil},
		{"mlp.w2", "ffn_gate", nil},
	}.And(gpt),
	settings: settings{{"attention.layer_norm_rms_epsilon", 'f', "layer_norm_epsilon"}},
	keys: func(k *keys) {
		rotating(k, 1)
		k.drop("attention.layer_norm_epsilon")
	},
}
