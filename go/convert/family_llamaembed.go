package convert

var llamaEmbed = Family{
	Arch:  "llama-embed",
	Names: "LlamaBidirectionalModel",
	Rules: ends.And(pairs, dense),
	Keys: func(k *Keys) {
		encoderKeys(k)
		commonKeys(k)
	},
	Extra: llama3Factors,
}
