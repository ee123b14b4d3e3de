package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// minimaxm3 is the part of MiniMax M3 that reads and writes text: dense first layers, and behind them attention to the
// best spans of positions, of which each kv head has its own, and sigmoid routing with a correction of the choice
// beside a shared expert; the gated function with limits of gpt-oss.
var minimaxm3 = Arch{
	Name: "minimax-m3",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.FeedForward()
		k.Experts()
		k.ExpertWeights(kernel.GateSigmoid, false)
		k.LeadingDense()
		k.SharedExperts()
		k.Rope(kernel.RopeNeox)
		k.HeadSpans()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormHead, Spans: l.CompressRatio > 0,
				SpansPerHead: true}))
			l.Mixture("ffn_norm", Experts{Fn: kernel.SwiGLUClamp})
		})
		b.End("output_norm")
	},
}
