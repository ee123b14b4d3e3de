package convert

var qwen3 = Family{
	Arch:  "qwen3",
	Names: "Qwen3ForCausalLM Qwen3Model",
	Rules: ends.And(attention, dense),
}
