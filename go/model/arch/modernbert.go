package arch

import "github.com/quern-llm/quern/go/kernel"

// modernBERT is ModernBERT and what was trained from it: norms before the sublayers, GeGLU or SwiGLU, rotations,
// no biases. Two layers of three have a window, the first not, and a base of rotations of their own.
var modernBERT = Arch{
	Name: "modern-bert",
	config: func(k *keys) {
		k.encoder()
		k.rope(kernel.RopeNeox)
		if k.intOr("attention.sliding_window", 0, 0, maxCtx) > 0 {
			k.windowsIn(allButFirst(3), allButFirst)
			base := k.floatOr("rope.freq_base_swa", 10000, 1.001, 1e15)
			for il := range k.c.Layers {
				if l := &k.c.Layers[il]; l.Window > 0 {
					l.Rope.Base = base
				}
			}
		}
		k.c.Classifier.Pooling = PoolMean
		const fn = "hidden_activation"
		k.c.EncoderFn = kernel.GELUErf
		if !k.has(fn) {
			return
		}
		switch name, err := k.f.Str(k.name(fn)); {
		case err != nil:
			k.keep(err)
		case name == "silu":
			k.c.EncoderFn = kernel.SiLU
		case name != "gelu":
			k.fail(fn, "%.40q is not supported, supported are gelu silu", name)
		}
	},
	build: func(b *builder) {
		b.begin(func() { b.normalise("token_embd_norm") })
		b.layers(func(l layer) {
			norm := "attn_norm"
			if !l.has(norm + ".weight") { // the first layer's input has one already
				norm = ""
			}
			l.residual(norm, l.attention(attention{}))
			l.residual("ffn_norm", l.feedForward(feedForward{fn: l.cfg.EncoderFn, fused: true}))
		})
		b.vectors("output_norm")
	},
}
