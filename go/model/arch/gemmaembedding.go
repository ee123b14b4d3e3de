package arch

// gemmaEmbedding is EmbeddingGemma: Gemma 3 that reads in both directions. Files may have the two
// products that follow the mean of a text.
var gemmaEmbedding = Arch{
	Name: "gemma-embedding",
	config: func(k *keys) {
		gemma3.config(k)
		k.c.BothWays = true
		const wide = "dense_2_feat_out"
		k.c.NDense = k.intOr(wide, 0, 0, maxFF)
	},
	build: func(b *builder) {
		gemma3Layers(b)
		b.vectors("output_norm")
		b.dense()
	},
}
