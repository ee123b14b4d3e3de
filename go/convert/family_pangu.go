package convert

var pangu = family{
	arch:  "pangu-embedded",
	names: "PanguEmbeddedForCausalLM",
	rules: ends.And(attention, dense),
	keys: func(k *keys) {
		commonKeys(k)
		k.n("attention.key_length", k.headDim())
		k.n("attention.value_length", k.headDim())
	},
}
