package convert

var qwen2 = family{
	arch:  "qwen2",
	names: "Qwen2ForCausalLM Qwen2Model",
	rules: ends.And(attention, dense),
}
