package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// gptoss is gpt-oss: windows in every second layer, a sink for each head, biases, the
// softmax of the chosen experts' logits, and a gated function with limits. The norm before the
// experts is called post_attention_norm.
var gptoss = Arch{
	Name: "gpt-oss",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.Experts()
		k.Config.ExpertGating = kernel.GateChosen
		k.Rope(kernel.RopeNeox)
		if !k.Has(YaRNTruncate) { // as in files of others: llama.cpp truncates, and the original does not
			for il := range k.Config.Layers {
				k.Config.Layers[il].Rope.Scaling.Fractional = true
			}
		}
		k.Windows(AllBut(2))
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{Sinks: true}))
			l.Mixture("post_attention_norm", Experts{Fn: kernel.SwiGLUClamp})
		})
		b.End("output_norm")
	},
}
