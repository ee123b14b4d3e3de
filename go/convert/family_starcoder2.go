package convert

import "slices"

var starcoder2 = family{
	arch:  "starcoder2",
	names: "Starcoder2ForCausalLM",
	rules: with(slices.Concat(ends, attention, dense),
		rule{"mlp.c_fc", "ffn_up", nil},
		rule{"mlp.c_proj", "ffn_down", nil}),
}
