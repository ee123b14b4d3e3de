package convert

import "slices"

var mellum = family{
	arch:     "mellum",
	names:    "MellumForCausalLM",
	rules:    slices.Concat(ends, attention, mixture, dense),
	settings: []setting{{"expert_feed_forward_length", 'n', "moe_intermediate_size"}},
	keys: func(k *keys) {
		if on, set := k.m["use_sliding_window"].(bool); k.has("sliding_window") && (on || !set) {
			k.n("attention.sliding_window", k.count("sliding_window"))
			k.bs("attention.sliding_window_pattern", k.typesOf("sliding_attention"))
		}
	},
}
