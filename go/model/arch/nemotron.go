package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// nemotron is Nemotron 3 of 2023 to Minitron: layer norms, a feed-forward without a gate
// whose function is the squared ReLU, part of each head rotated.
var nemotron = Arch{
	Name:   "nemotron",
	config: starcoder2.config,
	build:  func(b *Builder) { b.Dense(Attention{}, FeedForward{Fn: kernel.ReLU2, Ungated: true}) },
}
