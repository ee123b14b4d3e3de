package convert

var llamaEmbed = family{
	arch:  "llama-embed",
	names: "LlamaBidirectionalModel",
	rules: ends.And(pairs, dense),
	keys: func(k *keys) {
		encoderKeys(k)
		commonKeys(k)
	},
	extra: llama3Factors,
}
