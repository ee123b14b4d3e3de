package arch

import . "github.com/quern-llm/quern/go/model/nn"

// llamaEmbed is Llama that reads in both directions, for the vectors of texts.
var llamaEmbed = Arch{
	Name: "llama-embed",
	config: func(k *Keys) {
		llama.config(k)
		k.Config.BothWays = true
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(llamaLayer)
		b.Vectors("output_norm")
	},
}
