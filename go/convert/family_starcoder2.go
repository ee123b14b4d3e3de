package convert

var starcoder2 = Family{
	Arch:  "starcoder2",
	Names: "Starcoder2ForCausalLM",
	Rules: Rules{
		{"mlp.c_fc", "ffn_up", nil},
		{"mlp.c_proj", "ffn_down", nil},
	}.And(ends, attention, dense),
}
