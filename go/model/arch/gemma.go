package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// gemma is Gemma 1: embeddings times the root of their width, GELU.
var gemma = Arch{
	Name: "gemma",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		k.EmbedScale()
	},
	build: func(b *Builder) { b.Dense(Attention{}, FeedForward{Fn: kernel.GELU}) },
}
