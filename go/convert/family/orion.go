package family

import "github.com/quern-llm/quern/go/convert/lang"

var orion = lang.Family{
	Arch:  "orion",
	Names: "OrionForCausalLM",
	Rules: ends.And(attention, dense),
	Keys: func(k *lang.Keys) {
		k.F("attention.layer_norm_epsilon", k.Number("rms_norm_eps")) // though its norms subtract the mean
		k.Drop("attention.layer_norm_rms_epsilon")
	},
}
