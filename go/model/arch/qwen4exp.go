package arch

import "github.com/quern-llm/quern/go/kernel"

// qwen4exp is Qwen 4 Exp: the delta nets, attention and experts of Qwen 3.5, between which a residual of several streams
// is mixed by gates; attention is to the best spans of positions, and one layer is given what hashes of the last tokens
// look up. Spans are chosen whole, as the original does: llama.cpp fills a budget that is no multiple of a span with parts
// of one more.
var qwen4exp = Arch{
	Name: "qwen4exp",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.experts()
		k.c.ExpertNorm = true
		k.sharedExperts()
		k.rope(kernel.RopeNeox)
		k.textSections()
		k.deltaNets()
		k.hyperLowRank()
		k.spans()
		k.ngrams()
	},
	build: func(b *builder) {
		b.begin(b.split, b.spanRopes)
		b.layers(func(l layer) {
			l.ngrams()
			l.connectLowRank("hc_attn", func() { l.residual("", l.deltaOrAttention(deltaNet{gate: kernel.Sigmoid, spans: true})) })
			l.connectLowRank("hc_ffn", func() {
				l.residual("", l.experts(experts{}), l.feedForward(feedForward{shared: true, gated: true}))
			})
		})
		b.joinLowRank("output_hc")
		b.end("")
	},
}
