package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// nomicBERT is nomic-embed-text 1 and 1.5: BERT with rotations, SwiGLU and no biases.
var nomicBERT = Arch{
	Name: "nomic-bert",
	config: func(k *Keys) {
		k.Encoder()
		k.Rope(kernel.RopeNeox)
	},
	build: func(b *Builder) {
		b.BERTLayers(Attention{}, func(l Layer) Sublayer { return l.FeedForward(FeedForward{}) })
	},
}

// nomicBERTMoE is nomic-embed-text 2: BERT with rotations, and experts without gates in every other
// layer. Files lack the bias that the original adds to what experts give.
var nomicBERTMoE = Arch{
	Name: "nomic-bert-moe",
	config: func(k *Keys) {
		k.Encoder()
		k.Rope(kernel.RopeNeox)
		k.Experts()
		const every = "moe_every_n_layers"
		n := k.Int(every, 1, MaxLayer)
		for il := range k.Config.Layers {
			k.Config.Layers[il].Sparse = n > 0 && il%n == 1%n
		}
	},
	build: func(b *Builder) {
		b.BERTLayers(Attention{}, func(l Layer) Sublayer {
			if l.Sparse {
				return l.Experts(Experts{Fn: kernel.GELUErf, Ungated: true})
			}
			return plainGELU(l)
		})
	},
}
