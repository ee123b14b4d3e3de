package family

import "github.com/quern-llm/quern/go/convert/lang"

var cohere2 = lang.Family{
	Arch:     "cohere2",
	Names:    "Cohere2ForCausalLM",
	Rules:    ends.And(attention, dense),
	Settings: lang.Settings{{"logit_scale", 'f', "logit_scale"}, {"attention.sliding_window", 'n', "sliding_window"}},
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		windows(k, allBut(4))
		k.Set("rope.scaling.type", "none")
	},
	Tied: true,
}
