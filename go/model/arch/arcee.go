package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// arcee is AFM: Llama with squared ReLU and no gate.
var arcee = Arch{
	Name:   "arcee",
	config: func(k *Keys) { k.Dense(kernel.RopeNorm) },
	build:  func(b *Builder) { b.Dense(Attention{}, FeedForward{Fn: kernel.ReLU2, Ungated: true}) },
}
