package convert

import "slices"

var plamo3 = family{
	arch:  "plamo3",
	names: "Plamo3ForCausalLM PLaMo3ForCausalLM",
	rules: with(slices.Concat(plamoLayers, ends),
		rule{"mixer.q_norm", "attn_q_norm", addOne},
		rule{"mixer.k_norm", "attn_k_norm", addOne}),
	keys: func(k *keys) {
		commonKeys(k)
		if k.countOr("window_size sliding_window", 0) > 0 && k.has("layer_types") {
			k.n("attention.sliding_window", k.count("window_size sliding_window"))
			k.bs("attention.sliding_window_pattern", k.typesOf("sliding_attention"))
		}
	},
	vocab: plamo2Vocab,
}
