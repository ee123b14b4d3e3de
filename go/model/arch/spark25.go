package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// spark25 is Spark X2.5: windows in the layers that the file says, with rotations of their own, a gate for each head,
// GEGLU. Its GELU is the one with erf; llama.cpp takes the other.
var spark25 = Arch{
	Name: "spark2_5",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		k.ListedWindows()
		k.RotatedInWindows(nil)
	},
	build: func(b *Builder) { b.Dense(Attention{Gate: GateHead}, FeedForward{Fn: kernel.GELUErf}) },
}
