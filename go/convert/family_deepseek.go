package convert

var deepseek = family{
	arch:     "deepseek",
	names:    "DeepseekForCausalLM",
	rules:    ends.And(pairs, dense, mixture),
	settings: routedSettings,
	keys: func(k *keys) {
		unscaled(k)
		k.drop("expert_weights_norm", "rope.scaling.factor")
	},
}

// unscaled is for the first mixtures of their kind, which multiply neither positions nor what experts answer.
func unscaled(k *keys) {
	commonKeys(k)
	k.set("rope.scaling.type", "none")
	k.f("expert_weights_scale", 1)
}
