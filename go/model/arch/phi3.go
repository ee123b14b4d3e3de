package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// phi3 is Phi 3, 3.5 and 4: queries, keys and values in one matrix, gate and up in another,
// factors for rotations in short and in long contexts. Models that name a window have it in
// all layers, as in the original; llama.cpp ignores it.
var phi3 = Arch{
	Name: "phi3",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		phi3Windows(k)
	},
	build: func(b *Builder) { b.Dense(Attention{}, FeedForward{Fused: true}) },
}

// phi3Windows reads the window of all layers.
func phi3Windows(k *Keys) {
	window := k.IntOr("attention.sliding_window", 0, 0, MaxCtx)
	for il := range k.Config.Layers {
		k.Config.Layers[il].Window = window
	}
}
