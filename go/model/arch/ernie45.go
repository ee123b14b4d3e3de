package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// ernie45 is ERNIE 4.5 without experts, which is Llama.
var ernie45 = Arch{
	Name:   "ernie4_5",
	config: func(k *Keys) { k.Dense(kernel.RopeNorm) },
	build:  func(b *Builder) { b.Dense(Attention{}, FeedForward{}) },
}
