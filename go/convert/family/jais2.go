package family

import "github.com/quern-llm/quern/go/convert/lang"

var jais2 = lang.Family{
	Arch:       "jais2",
	Names:      "Jais2ForCausalLM",
	Rules:      ends.And(attention, dense),
	Keys:       func(k *lang.Keys) { rotating(k, 1) },
	Activation: "relu2",
}
