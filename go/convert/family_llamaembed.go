package convert

import "slices"

var llamaEmbed = family{
	arch:  "llama-embed",
	names: "LlamaBidirectionalModel",
	rules: slices.Concat(ends, pairs, dense),
	keys: func(k *keys) {
		encoderKeys(k)
		commonKeys(k)
	},
	extra: llama3Factors,
}
