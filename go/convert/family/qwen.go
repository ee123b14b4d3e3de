package family

import "github.com/quern-llm/quern/go/convert/lang"

var qwen = lang.Family{
	Arch:  "qwen",
	Names: "QWenLMHeadModel",
	Rules: lang.Rules{
		{"mlp.w1", "ffn_up", nil},
		{"mlp.w2", "ffn_gate", nil},
	}.And(gpt),
	Settings: lang.Settings{{"attention.layer_norm_rms_epsilon", 'f', "layer_norm_epsilon"}},
	Keys: func(k *lang.Keys) {
		rotating(k, 1)
		k.Drop("attention.layer_norm_epsilon")
	},
}
