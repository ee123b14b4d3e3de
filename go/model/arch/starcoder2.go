package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// starcoder2 is StarCoder 2: norms with a mean, biases everywhere, GELU without
// a gate.
var starcoder2 = Arch{
	Name: "starcoder2",
	config: func(k *Keys) {
		k.LayerNorm()
		k.Heads()
		k.FeedForward()
		k.Rope(kernel.RopeNeox)
	},
	build: func(b *Builder) { b.Dense(Attention{}, FeedForward{Fn: kernel.GELU, Ungated: true}) },
}
