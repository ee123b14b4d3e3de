package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// chameleon is Chameleon's part that reads and writes text: each head of queries and keys normalised by a norm with a
// mean, weights of its own and biases. Tokens of images are never said. The larger one has norms behind the sublayers
// instead of before them, as in transformers; llama.cpp gives its feed-forward the result of the attention alone.
var chameleon = Arch{
	Name: "chameleon",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNorm)
		k.Config.PostNorm = k.BoolOr("swin_norm", false)
		if n := k.IntOr("quern.image_tokens.count", 8192, 0, 1<<24); n > 0 {
			first := k.IntOr("quern.image_tokens.first", 4, 0, 1<<24)
			k.Config.Suppressed = [2]int{first, first + n}
		}
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			if l.Config.PostNorm {
				l.Residual("", l.Attention(Attention{QKNorm: NormEachCentered, PostNorm: "attn_norm"}))
				l.Residual("", l.FeedForward(FeedForward{PostNorm: "ffn_norm"}))
				return
			}
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormEachCentered}))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{}))
		})
		b.End("output_norm")
	},
}
