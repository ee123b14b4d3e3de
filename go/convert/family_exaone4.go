package convert

var exaone4 = family{
	arch:  "exaone4",
	names: "Exaone4ForCausalLM",
	rules: around.And(ends, attention, dense),
	keys: func(k *keys) {
		commonKeys(k)
		if k.has("sliding_window") {
			k.n("attention.sliding_window", k.count("sliding_window"))
			k.bs("attention.sliding_window_pattern", k.typesOf("sliding_attention"))
		}
	},
	extra: llama3Factors,
}
