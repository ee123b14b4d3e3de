package convert

var plamo3 = Family{
	Arch:  "plamo3",
	Names: "Plamo3ForCausalLM PLaMo3ForCausalLM",
	Rules: Rules{
		{"mixer.q_norm", "attn_q_norm", AddOne},
		{"mixer.k_norm", "attn_k_norm", AddOne},
	}.And(plamoLayers, ends),
	Keys: func(k *Keys) {
		commonKeys(k)
		if k.CountOr("window_size sliding_window", 0) > 0 && k.Has("layer_types") {
			k.N("attention.sliding_window", k.Count("window_size sliding_window"))
			k.Bs("attention.sliding_window_pattern", k.TypesOf("sliding_attention"))
		}
	},
	Vocab: plamo2Vocab,
}
