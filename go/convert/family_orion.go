package convert

var orion = Family{
	Arch:  "orion",
	Names: "OrionForCausalLM",
	Rules: ends.And(attention, dense),
	Keys: func(k *Keys) {
		k.F("attention.layer_norm_epsilon", k.Number("rms_norm_eps")) // which has a mean nevertheless
		k.Drop("attention.layer_norm_rms_epsilon")
	},
}
