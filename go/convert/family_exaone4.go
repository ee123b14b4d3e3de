package convert

var exaone4 = Family{
	Arch:  "exaone4",
	Names: "Exaone4ForCausalLM",
	Rules: around.And(ends, attention, dense),
	Keys: func(k *Keys) {
		commonKeys(k)
		if k.Has("sliding_window") {
			k.N("attention.sliding_window", k.Count("sliding_window"))
			k.Bs("attention.sliding_window_pattern", k.TypesOf("sliding_attention"))
		}
	},
	Extra: llama3Factors,
}
