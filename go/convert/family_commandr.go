package convert

var commandr = family{
	arch:  "command-r",
	names: "CohereForCausalLM",
	rules: ends.And(attention, dense),
	settings: settings{
		{"logit_scale", 'f', "logit_scale"},
		{"attention.layer_norm_epsilon", 'f', "layer_norm_eps"},
	},
	keys: func(k *keys) { k.set("rope.scaling.type", "none") },
	skip: []string{"lm_head."},
}
