package convert

var cohere2 = family{
	arch:     "cohere2",
	names:    "Cohere2ForCausalLM",
	rules:    ends.And(attention, dense),
	settings: settings{{"logit_scale", 'f', "logit_scale"}, {"attention.sliding_window", 'n', "sliding_window"}},
	keys: func(k *keys) {
		commonKeys(k)
		k.set("rope.scaling.type", "none")
	},
	skip: []string{"lm_head."},
}
