package arch

// afmoe is Trinity: gated attention, norms before and after each sublayer, sigmoid routing with a
// correction of the choice, shared experts beside the routed ones, dense first layers. Three layers
// of four have a window, and the others no rotations.
var afmoe = Arch{
	Name: "afmoe",
	config: func(k *keys) {
		sigmoidMixture(k, false)
		k.embedScale()
		k.windows(allBut(4))
		k.ropeInWindows()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normHead, gate: gateOwn, post: "post_attention_norm"}))
			l.mixture("ffn_norm", experts{sum: "post_ffw_norm"})
		})
		b.end("output_norm")
	},
}
