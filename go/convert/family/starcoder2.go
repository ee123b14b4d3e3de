package family

import "github.com/quern-llm/quern/go/convert/lang"

var starcoder2 = lang.Family{
	Arch:  "starcoder2",
	Names: "Starcoder2ForCausalLM",
	Rules: lang.Rules{
		{"mlp.c_fc", "ffn_up", nil},
		{"mlp.c_proj", "ffn_down", nil},
	}.And(ends, attention, dense),
	Keys:       windowed,
	Activation: "gelu_new",
}
