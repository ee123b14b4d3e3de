package family

import "github.com/quern-llm/quern/go/convert/lang"

var maincoder = lang.Family{
	Arch:  "maincoder",
	Names: "MaincoderForCausalLM",
	Rules: ends.And(attention, dense), // its checkpoints rotate neighbouring channels, as GGUF does
}
