package convert

var olmoe = family{
	arch:  "olmoe",
	names: "OlmoeForCausalLM",
	rules: ends.And(attention, dense, mixture),
	keys:  func(k *keys) { k.f("attention.layer_norm_rms_epsilon", k.numberOr("rms_norm_eps", 1e-5)) },
}
