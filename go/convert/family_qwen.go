package convert

var qwen = Family{
	Arch:  "qwen",
	Names: "QWenLMHeadModel",
	Rules: Rules{
		{"mlp.w1", "ffn_up", nil},
		{"mlp.w2", "ffn_gate", nil},
	}.And(gpt),
	Settings: Settings{{"attention.layer_norm_rms_epsilon", 'f', "layer_norm_epsilon"}},
	Keys: func(k *Keys) {
		rotating(k, 1)
		k.Drop("attention.layer_norm_epsilon")
	},
}
