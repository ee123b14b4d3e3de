package convert

var olmo = Family{
	Arch:     "olmo",
	Names:    "OlmoForCausalLM",
	Rules:    ends.And(pairs, dense),
	Settings: Settings{{"attention.clamp_kqv", 'f', "clip_qkv"}},
	Keys:     func(k *Keys) { k.F("attention.layer_norm_epsilon", 1e-5) },
}
