package arch

import "github.com/quern-llm/quern/go/kernel"

// nomicBERT is nomic-embed-text 1 and 1.5: BERT with rotations, SwiGLU and no biases.
var nomicBERT = Arch{
	Name: "nomic-bert",
	config: func(k *keys) {
		k.encoder()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.bertLayers(attention{}, func(l layer) sublayer { return l.feedForward(feedForward{}) })
	},
}

// nomicBERTMoE is nomic-embed-text 2: BERT with rotations, and experts without gates in every other
// layer. Files lack the bias that the original adds to what experts give.
var nomicBERTMoE = Arch{
	Name: "nomic-bert-moe",
	config: func(k *keys) {
		k.encoder()
		k.rope(kernel.RopeNeox)
		k.experts()
		const every = "moe_every_n_layers"
		n := k.int(every, 1, maxLayer)
		for il := range k.c.Layers {
			k.c.Layers[il].Sparse = n > 0 && il%n == 1%n
		}
	},
	build: func(b *builder) {
		b.bertLayers(attention{}, func(l layer) sublayer {
			if l.Sparse {
				return l.experts(experts{fn: kernel.GELUErf, plain: true})
			}
			return plainGELU(l)
		})
	},
}
