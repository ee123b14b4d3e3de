package family

import "github.com/quern-llm/quern/go/convert/lang"

var qwen2 = lang.Family{
	Arch:  "qwen2",
	Names: "Qwen2ForCausalLM Qwen2Model",
	Rules: ends.And(attention, dense),
	Keys:  windowed,
}
