package arch

// llamaEmbed is Llama that reads in both directions, for the vectors of texts.
var llamaEmbed = Arch{
	Name: "llama-embed",
	config: func(k *keys) {
		llama.config(k)
		k.c.BothWays = true
	},
	build: func(b *builder) {
		b.begin()
		b.layers(llamaLayer)
		b.vectors("output_norm")
	},
}
