package family

import "github.com/quern-llm/quern/go/convert/lang"

var pangu = lang.Family{
	Arch:  "pangu-embedded",
	Names: "PanguEmbeddedForCausalLM",
	Rules: ends.And(attention, dense),
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		k.N("attention.key_length", k.HeadDim())
		k.N("attention.value_length", k.HeadDim())
	},
}
