package convert

var deepseek = Family{
	Arch:     "deepseek",
	Names:    "DeepseekForCausalLM",
	Rules:    ends.And(pairs, dense, mixture),
	Settings: routedSettings,
	Keys: func(k *Keys) {
		unscaled(k)
		k.Drop("expert_weights_norm", "rope.scaling.factor")
	},
}

// unscaled is for the first mixtures of their kind, which multiply neither positions nor what experts answer.
func unscaled(k *Keys) {
	commonKeys(k)
	k.Set("rope.scaling.type", "none")
	k.F("expert_weights_scale", 1)
}
