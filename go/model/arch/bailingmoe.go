package arch

import . "github.com/quern-llm/quern/go/model/nn"

// bailingmoe is Ling 1 and Ring 1: deepseek, whose weights of experts may sum to 1.
var bailingmoe = Arch{
	Name: "bailingmoe",
	config: func(k *Keys) {
		deepseek.config(k)
		k.ExpertNorm(false)
	},
	build: deepseek.build,
}
