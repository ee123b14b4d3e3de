package convert

var qwen2 = Family{
	Arch:  "qwen2",
	Names: "Qwen2ForCausalLM Qwen2Model",
	Rules: ends.And(attention, dense),
}
