package family

import "github.com/quern-llm/quern/go/convert/lang"

var olmo2 = lang.Family{
	Arch:  "olmo2",
	Names: "Olmo2ForCausalLM Olmo3ForCausalLM",
	Rules: around.And(ends, attention, dense),
	Keys: func(k *lang.Keys) {
		if k.Has("sliding_window") {
			windows := make([]bool, k.Layers())
			for i := range windows {
				windows[i] = (i+1)%4 != 0
			}
			if k.Has("layer_types") {
				windows = k.TypesOf("sliding_attention")
			}
			k.N("attention.sliding_window", k.Count("sliding_window"))
			k.Bs("attention.sliding_window_pattern", windows)
		}
	},
}
