package convert

var gemmaEmbedding = family{
	arch:     "gemma-embedding",
	names:    "Gemma3TextModel",
	rules:    plusOne(gemmaRules),
	settings: settings{{"attention.sliding_window", 'n', "sliding_window"}},
	keys: func(k *keys) {
		gemma3Keys(k)
		k.b("attention.causal", false)
		k.n("pooling_type", 1)
	},
	vocab: noSpace,
}
