package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// persimmon is Persimmon 8B and Fuyu's text: norms with a mean, those of queries and keys too, biases everywhere, part
// of each head rotated, squared ReLU without a gate.
var persimmon = Arch{
	Name:   "persimmon",
	config: starcoder2.config,
	build: func(b *Builder) {
		b.Dense(Attention{QKNorm: NormCenteredOptional}, FeedForward{Fn: kernel.ReLU2, Ungated: true})
	},
}
