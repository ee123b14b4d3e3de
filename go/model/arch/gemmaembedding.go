package arch

import . "github.com/quern-llm/quern/go/model/nn"

// gemmaEmbedding is EmbeddingGemma: Gemma 3 that reads in both directions. Files may have the two
// products that follow the mean of a text.
var gemmaEmbedding = Arch{
	Name: "gemma-embedding",
	config: func(k *Keys) {
		gemma3.config(k)
		k.Config.BothWays = true
	},
	build: func(b *Builder) {
		gemma3Layers(b)
		b.Vectors("output_norm")
	},
}
