package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// opt is OPT, Galactica and XGLM: embeddings of positions, norms with a mean, ReLU without a gate (GELU, if the file says
// it). Galactica's norms have no weights. OPT of 350M has norms after its sublayers, and narrower embeddings of tokens.
var opt = Arch{
	Name: "opt",
	config: func(k *Keys) {
		gpt2.config(k)
		k.NarrowEmbeddings()
		_, weights := k.File.Tensor("blk.0.attn_norm.weight")
		k.Config.BareNorms = !weights
		k.Config.PostNorm = k.BoolOr(Own+"post_norm", false)
		k.Config.EmbedScale = float32(k.FloatOr("embedding_scale", 1, 1e-6, 1e6))
	},
	build: func(b *Builder) {
		b.Begin(b.Positions)
		f := FeedForward{Fn: kernel.ReLU, Ungated: true}
		if !b.Config.PostNorm {
			b.Layers(func(l Layer) {
				l.Residual("attn_norm", l.Attention(Attention{}))
				l.Residual("ffn_norm", l.FeedForward(f))
			})
			b.End("output_norm")
			return
		}
		b.Layers(func(l Layer) {
			l.Residual("", l.Attention(Attention{}))
			l.Normalise("attn_norm")
			l.Residual("", l.FeedForward(f))
			l.Normalise("ffn_norm")
		})
		b.End("")
	},
}
