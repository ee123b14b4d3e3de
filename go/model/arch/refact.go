package arch

import . "github.com/quern-llm/quern/go/model/nn"

// refact is Refact 1.6B: Llama with ALiBi in place of rotations.
var refact = Arch{
	Name: "refact",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.FeedForward()
		k.Config.ALiBi = true
	},
	build: llama.build,
}
