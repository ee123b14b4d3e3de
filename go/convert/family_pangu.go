package convert

var pangu = Family{
	Arch:  "pangu-embedded",
	Names: "PanguEmbeddedForCausalLM",
	Rules: ends.And(attention, dense),
	Keys: func(k *Keys) {
		commonKeys(k)
		k.N("attention.key_length", k.HeadDim())
		k.N("attention.value_length", k.HeadDim())
	},
}
