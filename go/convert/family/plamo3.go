package family

import "github.com/quern-llm/quern/go/convert/lang"

var plamo3 = lang.Family{
	Arch:  "plamo3",
	Names: "Plamo3ForCausalLM PLaMo3ForCausalLM",
	Rules: lang.Rules{
		{"mixer.q_norm", "attn_q_norm", lang.AddOne},
		{"mixer.k_norm", "attn_k_norm", lang.AddOne},
	}.And(plamoLayers, ends),
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		if k.CountOr("window_size sliding_window", 0) > 0 && k.Has("layer_types") {
			k.N("attention.sliding_window", k.Count("window_size sliding_window"))
			k.Bs("attention.sliding_window_pattern", k.TypesOf("sliding_attention"))
		}
	},
	Vocab: plamo2Vocab,
}
