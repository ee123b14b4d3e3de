package arch

import "github.com/quern-llm/quern/go/kernel"

// bert is BERT, RoBERTa, XLM-R and what was trained from them: MiniLM, BGE, E5 and others. It has
// learned positions, and GELU with erf, as the originals have.
var bert = Arch{
	Name: "bert",
	config: func(k *keys) {
		k.encoder()
		k.c.Positions = true
	},
	build: func(b *builder) { b.bertLayers(attention{}, plainGELU) },
}

// plainGELU is the feed-forward of BERT.
func plainGELU(l layer) sublayer { return l.feedForward(feedForward{fn: kernel.GELUErf, plain: true}) }
