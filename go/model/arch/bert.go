package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// bert is BERT, RoBERTa, XLM-R and what was trained from them: MiniLM, BGE, E5 and others. It has
// learned positions, and GELU with erf, as the originals have.
var bert = Arch{
	Name: "bert",
	config: func(k *Keys) {
		k.Encoder()
		k.Config.Positions = true
	},
	build: func(b *Builder) { b.BERTLayers(Attention{}, plainGELU) },
}

// plainGELU is the feed-forward of BERT.
func plainGELU(l Layer) Sublayer {
	return l.FeedForward(FeedForward{Fn: kernel.GELUErf, Ungated: true})
}
