package family

import "github.com/quern-llm/quern/go/convert/lang"

var commandr = lang.Family{
	Arch:  "command-r",
	Names: "CohereForCausalLM",
	Rules: ends.And(attention, dense),
	Settings: lang.Settings{
		{"logit_scale", 'f', "logit_scale"},
		{"attention.layer_norm_epsilon", 'f', "layer_norm_eps"},
	},
	Keys: func(k *lang.Keys) { k.Set("rope.scaling.type", "none") },
	Tied: true,
}
