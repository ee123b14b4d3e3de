package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// qwen4exp is Qwen 4 Exp: the delta nets, attention and experts of Qwen 3.5, between which a residual of several
// streams is mixed by gates; attention is to the best spans of positions, and one layer is given what hashes of the
// last tokens look up. Spans are chosen whole, as the original does: llama.cpp fills a budget that is no multiple of a
// span with parts of one more.
var qwen4exp = Arch{
	Name: "qwen4exp",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.Experts()
		k.ExpertNorm(true)
		k.SharedExperts()
		k.Rope(kernel.RopeNeox)
		k.Sections(true)
		k.DeltaNets()
		k.Config.Delta.GateFn = k.Activation("quern.ssm.gate_activation", kernel.Sigmoid)
		k.HyperConnectionsLowRank()
		k.Spans()
		k.NGrams()
	},
	build: func(b *Builder) {
		b.Begin(b.Split, b.SpanRopes)
		b.Layers(func(l Layer) {
			l.NGrams()
			l.ConnectLowRank("hc_attn", func() {
				l.Residual("",
					l.DeltaOrAttention(DeltaNet{Spans: true}))
			})
			l.ConnectLowRank("hc_ffn", func() {
				l.Residual("", l.Experts(Experts{}), l.FeedForward(FeedForward{Shared: true, SharedGate: true}))
			})
		})
		b.JoinLowRank("output_hc")
		b.End("")
	},
}
