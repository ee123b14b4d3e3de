package family

import "github.com/quern-llm/quern/go/convert/lang"

var exaone4 = lang.Family{
	Arch:  "exaone4",
	Names: "Exaone4ForCausalLM",
	Rules: around.And(ends, attention, dense),
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		if k.Has("sliding_window") {
			k.N("attention.sliding_window", k.Count("sliding_window"))
			k.Bs("attention.sliding_window_pattern", k.TypesOf("sliding_attention"))
		}
	},
}
