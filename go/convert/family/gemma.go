package family

import "github.com/quern-llm/quern/go/convert/lang"

var gemma = lang.Family{
	Arch:       "gemma",
	Names:      "GemmaForCausalLM",
	Rules:      lang.PlusOne(ends.And(attention, dense)),
	Tied:       true,
	Vocab:      noSpace,
	Activation: "gelu_new",
}
