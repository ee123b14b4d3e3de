package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// smollm3 is SmolLM 3: Llama, but every fourth layer has no rotations.
var smollm3 = Arch{
	Name: "smollm3",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNorm)
		for il := 3; il < len(k.Config.Layers); il += 4 {
			k.Config.Layers[il].Rope = Rope{}
		}
	},
	build: func(b *Builder) { b.Dense(Attention{}, FeedForward{}) },
}
