package family

import "github.com/quern-llm/quern/go/convert/lang"

var mellum = lang.Family{
	Arch:     "mellum",
	Names:    "MellumForCausalLM",
	Rules:    ends.And(attention, mixture, dense),
	Settings: expertSettings,
	Fixed:    lang.Fixed{{"mlp_layer_types", "sparse"}},
	Keys: func(k *lang.Keys) {
		if k.Has("sliding_window") && k.FlagOr("use_sliding_window", true) {
			k.N("attention.sliding_window", k.Count("sliding_window"))
			k.Bs("attention.sliding_window_pattern", k.TypesOf("sliding_attention"))
		}
	},
}
