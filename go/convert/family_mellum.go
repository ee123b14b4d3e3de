package convert

var mellum = family{
	arch:     "mellum",
	names:    "MellumForCausalLM",
	rules:    ends.And(attention, mixture, dense),
	settings: settings{{"expert_feed_forward_length", 'n', "moe_intermediate_size"}},
	keys: func(k *keys) {
		if k.has("sliding_window") && k.flagOr("use_sliding_window", true) {
			k.n("attention.sliding_window", k.count("sliding_window"))
			k.bs("attention.sliding_window_pattern", k.typesOf("sliding_attention"))
		}
	},
}
