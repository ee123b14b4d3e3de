package arch

import . "github.com/quern-llm/quern/go/model/nn"

// gptneo is GPT-Neo: GPT-2 with windows in the layers that the file lists. Scores are not scaled.
var gptneo = Arch{
	Name: "gpt_neo",
	config: func(k *Keys) {
		gpt2.config(k)
		for il := range k.Config.Layers {
			k.Config.Layers[il].AttnScale = 1
		}
	},
	build: gpt2.build,
}
