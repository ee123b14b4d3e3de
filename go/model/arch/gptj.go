package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// gptj is GPT-J and CodeGen: phi2 with rotations of neighbours, and without biases in attention.
var gptj = Arch{
	Name: "gptj",
	config: func(k *Keys) {
		k.LayerNorm()
		k.Heads()
		k.FeedForward()
		k.Rope(kernel.RopeNorm)
	},
	build: phi2.build,
}
