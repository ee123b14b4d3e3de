package convert

var starcoder2 = family{
	arch:  "starcoder2",
	names: "Starcoder2ForCausalLM",
	rules: rules{
		{"mlp.c_fc", "ffn_up", nil},
		{"mlp.c_proj", "ffn_down", nil},
	}.And(ends, attention, dense),
}
