package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// qwen2 is Qwen 2 and 2.5: rotations across halves of a head, and biases of
// queries, keys and values.
var qwen2 = Arch{
	Name:   "qwen2",
	config: func(k *Keys) { k.Dense(kernel.RopeNeox) },
	build:  func(b *Builder) { b.Dense(Attention{Bias: true}, FeedForward{}) },
}
