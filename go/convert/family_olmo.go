package convert

var olmo = family{
	arch:     "olmo",
	names:    "OlmoForCausalLM",
	rules:    ends.And(pairs, dense),
	settings: settings{{"attention.clamp_kqv", 'f', "clip_qkv"}},
	keys:     func(k *keys) { k.f("attention.layer_norm_epsilon", 1e-5) },
}
