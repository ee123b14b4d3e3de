package arch

import . "github.com/quern-llm/quern/go/model/nn"

// afmoe is Trinity: gated attention, norms before and after each sublayer, sigmoid routing with a
// correction of the choice, shared experts beside the routed ones, dense first layers. Three layers
// of four have a window, and the others no rotations.
var afmoe = Arch{
	Name: "afmoe",
	config: func(k *Keys) {
		sigmoidMixture(k, false)
		k.EmbedScale()
		k.Windows(AllBut(4))
		k.RopeInWindows()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormHead, Gate: GateChannel,
				PostNorm: "post_attention_norm"}))
			l.Mixture("ffn_norm", Experts{SumNorm: "post_ffw_norm"})
		})
		b.End("output_norm")
	},
}
