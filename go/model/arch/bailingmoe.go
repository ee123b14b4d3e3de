package arch

import . "github.com/quern-llm/quern/go/model/nn"

// bailingmoe is Ling 1 and Ring 1: deepseek, whose weights of experts may sum to 1.
var bailingmoe = Arch{
	Name: "bailingmoe",
	config: func(k *Keys) {
		deepseek.config(k)
		k.Config.ExpertNorm = k.BoolOr("expert_weights_norm", false)
	},
	build: deepseek.build,
}
