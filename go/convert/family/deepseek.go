package family

import "github.com/quern-llm/quern/go/convert/lang"

var deepseek = lang.Family{
	Arch:     "deepseek",
	Names:    "DeepseekForCausalLM",
	Rules:    ends.And(pairs, dense, mixture),
	Settings: routedSettings,
	Keys: func(k *lang.Keys) {
		unscaled(k)
		k.Drop("expert_weights_norm", "rope.scaling.factor")
	},
}

// unscaled is for mixtures that scale neither positions nor the outputs of experts.
func unscaled(k *lang.Keys) {
	commonKeys(k)
	k.Set("rope.scaling.type", "none")
	k.F("expert_weights_scale", 1)
}
