package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// pangu is openPangu Embedded: Llama with biases in attention.
var pangu = Arch{
	Name:   "pangu-embedded",
	config: func(k *Keys) { k.Dense(kernel.RopeNeox) },
	build:  func(b *Builder) { b.Dense(Attention{}, FeedForward{}) },
}
