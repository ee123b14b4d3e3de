package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// olmo is OLMo 1: Llama with norms that have a mean and no weights.
var olmo = Arch{
	Name: "olmo",
	config: func(k *Keys) {
		k.LayerNorm()
		k.Config.BareNorms = true
		k.Heads()
		k.FeedForward()
		k.ClampQKV()
		k.Rope(kernel.RopeNorm)
	},
	build: llama.build,
}
