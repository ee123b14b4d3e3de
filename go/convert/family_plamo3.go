package convert

var plamo3 = family{
	arch:  "plamo3",
	names: "Plamo3ForCausalLM PLaMo3ForCausalLM",
	rules: rules{
		{"mixer.q_norm", "attn_q_norm", addOne},
		{"mixer.k_norm", "attn_k_norm", addOne},
	}.And(plamoLayers, ends),
	keys: func(k *keys) {
		commonKeys(k)
		if k.countOr("window_size sliding_window", 0) > 0 && k.has("layer_types") {
			k.n("attention.sliding_window", k.count("window_size sliding_window"))
			k.bs("attention.sliding_window_pattern", k.typesOf("sliding_attention"))
		}
	},
	vocab: plamo2Vocab,
}
