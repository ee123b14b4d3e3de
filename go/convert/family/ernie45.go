package family

import "github.com/quern-llm/quern/go/convert/lang"

var ernie45 = lang.Family{
	Arch:  "ernie4_5",
	Names: "Ernie4_5ForCausalLM Ernie4_5_ForCausalLM",
	Rules: ends.And(attention, dense), // its checkpoints rotate neighbouring channels, as GGUF does
}
