package arch

import "github.com/quern-llm/quern/go/kernel"

// olmo is OLMo 1: Llama with norms that have a mean and no weights.
var olmo = Arch{
	Name: "olmo",
	config: func(k *keys) {
		k.layerNorm()
		k.c.BareNorms = true
		k.heads()
		k.feedForward()
		k.clamp()
		k.rope(kernel.RopeNorm)
	},
	build: llama.build,
}
