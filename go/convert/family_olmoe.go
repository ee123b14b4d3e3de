package convert

var olmoe = Family{
	Arch:  "olmoe",
	Names: "OlmoeForCausalLM",
	Rules: ends.And(attention, dense, mixture),
	Keys:  func(k *Keys) { k.F("attention.layer_norm_rms_epsilon", k.NumberOr("rms_norm_eps", 1e-5)) },
}
