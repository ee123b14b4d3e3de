package convert

var olmo2 = family{
	arch:  "olmo2",
	names: "Olmo2ForCausalLM Olmo3ForCausalLM",
	rules: around.And(ends, attention, dense),
	keys: func(k *keys) {
		if k.has("sliding_window") {
			windows := make([]bool, k.layers())
			for i := range windows {
				windows[i] = (i+1)%4 != 0
			}
			if k.has("layer_types") {
				windows = k.typesOf("sliding_attention")
			}
			k.n("attention.sliding_window", k.count("sliding_window"))
			k.bs("attention.sliding_window_pattern", windows)
		}
	},
}
