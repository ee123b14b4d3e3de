package convert

var qwen3 = family{
	arch:  "qwen3",
	names: "Qwen3ForCausalLM Qwen3Model",
	rules: ends.And(attention, dense),
}
