package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// eagle3 is EAGLE-3 (Li et al. 2025, "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via
// Training-Time Test"): one layer, which is given the inputs of three of the model's layers, made one by a matrix, and
// beside them the embedding of the token that follows. For a further token it is given its own hidden state in their
// place.
var eagle3 = headKind{
	name: "eagle3",
	config: func(k *Keys, h *Head) {
		k.Dense(kernel.RopeNorm)
		if n := len(k.Config.Layers); n != 1 {
			k.Fail("block_count", "%d, want 1", n)
		}
		h.Inputs = k.HeadInputs(MaxHeadInputs)
		h.Width = k.IntOr("target_hidden_size", k.Config.NEmbd, 1, MaxEmbd)
		h.NormInputs = k.BoolOr("norm_before_fc", false)
		h.NormResidual = k.BoolOr("norm_before_residual", false)
	},
	build: func(b *Builder, h *Head) {
		n := h.NEmbd
		p := &Next{Hidden: b.Floats("next.hidden", kernel.TokRows, n), Width: n}
		b.JoinInputs(p.Hidden, h.NormInputs)
		p.Take = b.Take()

		l := b.Layer(0, h.Layers[0])
		att, both := l.Attention(Attention{In: 2 * n}), b.Floats("next.both", kernel.TokRows, 2*n)
		act := b.Act("next.both", kernel.TokRows, 2*n, att.In...)
		b.HeadRopes(0)
		b.EmbedTokens(both, 1)
		l.Normed(both, both, kernel.TokRows, "attn_norm")
		b.Add(kernel.NormRows{
			Dst: both, DstCol: n, Src: p.Hidden, Cols: n, Segs: 1, Kind: kernel.RMS, Eps: h.Eps, Scale: 1,
			Weight: l.NormWeights("attn_norm_2", n),
		})
		residual := kernel.NormRows{Dst: b.X(), Src: p.Hidden, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1}
		if h.NormResidual {
			residual.Src, residual.SrcCol = both, n
		}
		b.Add(residual)
		b.Add(kernel.ToAct{Act: act, Src: both, Cols: 2 * n})
		att.Run(l.Only(act, att.In...))
		l.Residual("ffn_norm", l.FeedForward(FeedForward{}))
		step := b.Take()
		p.Keep = Keeping(step)
		b.Drafts(p, step, "output_norm")
	},
}
