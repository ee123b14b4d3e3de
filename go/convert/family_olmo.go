package convert

import "slices"

var olmo = family{
	arch:     "olmo",
	names:    "OlmoForCausalLM",
	rules:    slices.Concat(ends, pairs, dense),
	settings: []setting{{"attention.clamp_kqv", 'f', "clip_qkv"}},
	keys:     func(k *keys) { k.f("attention.layer_norm_epsilon", 1e-5) },
}
