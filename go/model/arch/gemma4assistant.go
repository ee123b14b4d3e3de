package arch

import "github.com/quern-llm/quern/go/kernel"

// gemma4assistant is the drafter of Gemma 4: narrow layers that attend to the keys and values of the model's last
// layers, with a window and without, and keep none. They are given the embedding of a token by the model, and beside it
// the model's last hidden state, or what they have made of their own. All guesses are at the position of the token that
// was sampled last.
var gemma4assistant = headKind{
	name: "gemma4-assistant",
	config: func(k *keys, h *Head) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
		k.windows(allBut(6))
		inWindows(k)
		unscaled(k)
		k.intOr("attention.shared_kv_layers", 0, 0, maxLayer) // it shares all
		h.Reads = true
		h.Width = k.int("embedding_length_out", 1, maxEmbd)
		h.LogitCap = float32(k.floatOr("final_logit_softcapping", 0, 0, maxCap))
	},
	build: func(b *builder, h *Head) {
		n, width := h.NEmbd, h.Width
		p := &Next{Hidden: b.floats("next.hidden", kernel.TokRows, width), Width: width, Still: true}
		p.Take = b.take() // of the model's hidden states

		pre := b.matrix(HeadStem+"nextn.pre_projection.weight", 2*width, n)
		both := b.floats("next.both", kernel.TokRows, 2*width)
		act := b.act("next.both", kernel.TokRows, 2*width, pre)
		b.headRopes(1)
		table := b.table("token_embd.weight", width, b.of.NVocab)
		b.add(kernel.Embed{Dst: both, Table: table, Scale: b.of.EmbedScale})
		b.add(kernel.NormRows{Dst: both, DstCol: width, Src: p.Hidden, Cols: width, Segs: 1, Kind: kernel.NoNorm, Scale: 1})
		b.add(kernel.ToAct{Act: act, Src: both, Cols: 2 * width})
		b.add(kernel.Matmul{Dst: b.x(), Act: act, Parts: []kernel.Part{{Matrix: pre}}})
		for il, sizes := range h.Layers {
			l := b.layer(il, sizes)
			l.residual("attn_norm", l.readAttention())
			l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.GELU, post: "post_ffw_norm"}))
			l.outputScale()
		}
		step := b.take()

		m, post := b.matrix(HeadStem+"token_embd.weight", n, h.NVocab), b.matrix(HeadStem+"nextn.post_projection.weight", n, width)
		b.draftsBy(p, step, m, "output_norm", post)
	},
}
