package convert

var commandr = Family{
	Arch:  "command-r",
	Names: "CohereForCausalLM",
	Rules: ends.And(attention, dense),
	Settings: Settings{
		{"logit_scale", 'f', "logit_scale"},
		{"attention.layer_norm_epsilon", 'f', "layer_norm_eps"},
	},
	Keys: func(k *Keys) { k.Set("rope.scaling.type", "none") },
	Skip: []string{"lm_head."},
}
