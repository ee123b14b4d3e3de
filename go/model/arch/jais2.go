package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// jais2 is Jais 2: LayerNorm and biases everywhere, squared ReLU without a gate.
var jais2 = Arch{
	Name: "jais2",
	config: func(k *Keys) {
		k.LayerNorm()
		k.Heads()
		k.FeedForward()
		k.Rope(kernel.RopeNeox)
	},
	build: func(b *Builder) { b.Dense(Attention{}, FeedForward{Fn: kernel.ReLU2, Ungated: true}) },
}
