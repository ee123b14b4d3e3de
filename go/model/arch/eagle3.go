package arch

import "github.com/quern-llm/quern/go/kernel"

// eagle3 is EAGLE-3 (Li et al. 2025, "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via Training-Time
// Test"): one layer, which is given the inputs of three of the model's layers, made one by a matrix, and beside them the embedding
// of the token that follows. For a further token it is given its own hidden state in their place.
var eagle3 = headKind{
	name: "eagle3",
	config: func(k *keys, h *Head) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNorm)
		if n := len(k.c.Layers); n != 1 {
			k.fail("block_count", "%d, want 1", n)
		}
		h.Inputs = k.inputs(maxHeadInputs)
		h.Width = k.intOr("target_hidden_size", k.c.NEmbd, 1, maxEmbd)
		h.NormInputs = k.boolOr("norm_before_fc", false)
		h.NormResidual = k.boolOr("norm_before_residual", false)
	},
	build: func(b *builder, h *Head) {
		n := h.NEmbd
		p := &Next{Hidden: b.floats("next.hidden", kernel.TokRows, n), Width: n}
		b.joinInputs(p.Hidden, h.NormInputs)
		p.Take = b.take()

		l := b.layer(0, h.Layers[0])
		att, both := l.attention(attention{in: 2 * n}), b.floats("next.both", kernel.TokRows, 2*n)
		act := b.act("next.both", kernel.TokRows, 2*n, att.in...)
		b.headRopes(0)
		b.embedded(both, 1)
		l.normed(both, both, kernel.TokRows, "attn_norm")
		b.add(kernel.NormRows{
			Dst: both, DstCol: n, Src: p.Hidden, Cols: n, Segs: 1, Kind: kernel.RMS, Eps: h.Eps, Scale: 1,
			Weight: l.normWeights("attn_norm_2", n),
		})
		residual := kernel.NormRows{Dst: b.x(), Src: p.Hidden, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1}
		if h.NormResidual {
			residual.Src, residual.SrcCol = both, n
		}
		b.add(residual)
		b.add(kernel.ToAct{Act: act, Src: both, Cols: 2 * n})
		att.run(l.only(act, att.in...))
		l.residual("ffn_norm", l.feedForward(feedForward{}))
		step := b.take()
		p.Keep = keeping(step)
		b.drafts(p, step, "output_norm")
	},
}
