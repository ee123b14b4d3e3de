package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// diffLlama is DiffLlama: Llama with differential attention.
var diffLlama = Arch{
	Name: "diffllama",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		for il, l := range k.Config.Layers {
			if l.NHead%2 != 0 {
				k.Fail("attention.head_count", "%d in layer %d, want an even number", l.NHead, il)
			}
		}
	},
	build: func(b *Builder) { b.Dense(Attention{Differential: true}, FeedForward{}) },
}
