package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// maincoder is Maincoder: Llama with norms of queries and keys after the rotations.
var maincoder = Arch{
	Name:   "maincoder",
	config: func(k *Keys) { k.Dense(kernel.RopeNorm) },
	build:  func(b *Builder) { b.Dense(Attention{QKNorm: NormAfterRope}, FeedForward{}) },
}
