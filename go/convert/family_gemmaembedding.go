package convert

var gemmaEmbedding = Family{
	Arch:     "gemma-embedding",
	Names:    "Gemma3TextModel",
	Rules:    PlusOne(gemmaRules),
	Settings: Settings{{"attention.sliding_window", 'n', "sliding_window"}},
	Keys: func(k *Keys) {
		gemma3Keys(k)
		k.B("attention.causal", false)
		k.N("pooling_type", 1)
	},
	Vocab: noSpace,
}
