package convert

var cohere2 = Family{
	Arch:     "cohere2",
	Names:    "Cohere2ForCausalLM",
	Rules:    ends.And(attention, dense),
	Settings: Settings{{"logit_scale", 'f', "logit_scale"}, {"attention.sliding_window", 'n', "sliding_window"}},
	Keys: func(k *Keys) {
		commonKeys(k)
		k.Set("rope.scaling.type", "none")
	},
	Skip: []string{"lm_head."},
}
