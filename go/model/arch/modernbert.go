package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// modernBERT is ModernBERT and what was trained from it: norms before the sublayers, GeGLU or SwiGLU, rotations,
// no biases. Two layers of three have a window, the first not, and a base of rotations of their own.
var modernBERT = Arch{
	Name: "modern-bert",
	config: func(k *Keys) {
		k.Encoder()
		k.Rope(kernel.RopeNeox)
		if k.IntOr("attention.sliding_window", 0, 0, MaxCtx) > 0 {
			k.WindowsIn(AllButFirst(3), AllButFirst)
			base := k.FloatOr("rope.freq_base_swa", 10000, 1.001, 1e15)
			for il := range k.Config.Layers {
				if l := &k.Config.Layers[il]; l.Window > 0 {
					l.Rope.Base = base
				}
			}
		}
		k.Config.Classifier.Pooling, k.Config.Classifier.Activation = PoolMean, "gelu"
		const fn = "hidden_activation"
		if !k.Has(fn) {
			return
		}
		name, err := k.File.Str(k.Name(fn))
		k.Check(err)
		if k.Config.Activation = name; name != "gelu" && name != "silu" {
			k.Fail(fn, "%.40q is not supported, supported are gelu silu", name)
		}
	},
	build: func(b *Builder) {
		b.Begin(func() { b.Normalise("token_embd_norm") })
		b.Layers(func(l Layer) {
			norm := "attn_norm"
			if !l.Has(norm + ".weight") { // the first layer's input has one already
				norm = ""
			}
			l.Residual(norm, l.Attention(Attention{}))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{Fn: kernel.GELUErf, Fused: true}))
		})
		b.Vectors("output_norm")
	},
}
