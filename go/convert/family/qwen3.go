package family

import "github.com/quern-llm/quern/go/convert/lang"

var qwen3 = lang.Family{
	Arch:  "qwen3",
	Names: "Qwen3ForCausalLM Qwen3Model",
	Rules: ends.And(attention, dense),
	Keys:  windowed,
}
