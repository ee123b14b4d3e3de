package arch

import "github.com/quern-llm/quern/go/kernel"

// minimaxm3 is the part of MiniMax M3 that reads and writes text: dense first layers, and behind them attention to the best
// spans of positions, of which each kv head has its own, and sigmoid routing with a correction of the choice beside a shared
// expert; the gated function with limits of gpt-oss.
var minimaxm3 = Arch{
	Name: "minimax-m3",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.experts()
		k.expertWeights(kernel.GateSigmoid, false)
		k.denseLead()
		k.sharedExperts()
		k.rope(kernel.RopeNeox)
		k.headSpans()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normHead, spans: l.Every > 0, apart: true}))
			l.mixture("ffn_norm", experts{fn: kernel.SwiGLUClamp})
		})
		b.end("output_norm")
	},
}
