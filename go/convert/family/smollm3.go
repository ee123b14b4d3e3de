package family

import "github.com/quern-llm/quern/go/convert/lang"

var smollm3 = lang.Family{
	Arch:  "smollm3",
	Names: "SmolLM3ForCausalLM",
	Rules: ends.And(pairs, dense),
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		windowed(k)
		k.Bs("quern.attention.rope_pattern", rotated(k))
	},
}
