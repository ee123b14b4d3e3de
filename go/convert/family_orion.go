package convert

var orion = family{
	arch:  "orion",
	names: "OrionForCausalLM",
	rules: ends.And(attention, dense),
	keys: func(k *keys) {
		k.f("attention.layer_norm_epsilon", k.number("rms_norm_eps")) // which has a mean nevertheless
		k.drop("attention.layer_norm_rms_epsilon")
	},
}
