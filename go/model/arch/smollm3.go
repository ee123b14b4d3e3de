package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// smollm3 is SmolLM 3: Llama, but every fourth layer has no rotations, or those that the file says.
var smollm3 = Arch{
	Name: "smollm3",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNorm)
		rotates := k.Layered(RopePattern, AllBut(4))
		for il := range k.Config.Layers {
			if !rotates(il) {
				k.Config.Layers[il].Rope = Rope{}
			}
		}
	},
	build: func(b *Builder) { b.Dense(Attention{}, FeedForward{}) },
}
