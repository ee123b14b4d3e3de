package family

import "github.com/quern-llm/quern/go/convert/lang"

var llamaEmbed = lang.Family{
	Arch:  "llama-embed",
	Names: "LlamaBidirectionalModel",
	Rules: ends.And(pairs, dense),
	Keys: func(k *lang.Keys) {
		encoderKeys(k)
		commonKeys(k)
	},
}
