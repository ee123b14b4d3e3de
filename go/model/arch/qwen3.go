package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// qwen3 is Qwen 3: rotations across halves of a head, each head of queries and
// keys normalised first. Its heads may be wider than n_embd/n_head.
var qwen3 = Arch{
	Name:   "qwen3",
	config: func(k *Keys) { k.Dense(kernel.RopeNeox) },
	build:  func(b *Builder) { b.Dense(Attention{QKNorm: NormHead}, FeedForward{}) },
}
