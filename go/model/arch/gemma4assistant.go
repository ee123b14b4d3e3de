package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// gemma4assistant is the drafter of Gemma 4: narrow layers that attend to the keys and values of the model's last
// layers, with a window and without, and keep none. They are given the embedding of a token by the model, and beside it
// the model's last hidden state, or what they have made of their own. All guesses are at the position of the token that
// was sampled last.
var gemma4assistant = headKind{
	name: "gemma4-assistant",
	config: func(k *Keys, h *Head) {
		k.Dense(kernel.RopeNeox)
		k.Windows(AllBut(6))
		inWindows(k)
		unscaled(k)
		k.IntOr("attention.shared_kv_layers", 0, 0, MaxLayer) // it shares all
		h.Reads = true
		h.Width = k.Int("embedding_length_out", 1, MaxEmbd)
		h.LogitCap = float32(k.FloatOr("final_logit_softcapping", 0, 0, MaxCap))
	},
	build: func(b *Builder, h *Head) {
		n, width := h.NEmbd, h.Width
		p := &Next{Hidden: b.Floats("next.hidden", kernel.TokRows, width), Width: width, Still: true}
		p.Take = b.Take() // of the model's hidden states

		pre := b.Matrix(HeadPrefix+"nextn.pre_projection.weight", 2*width, n)
		both := b.Floats("next.both", kernel.TokRows, 2*width)
		act := b.Act("next.both", kernel.TokRows, 2*width, pre)
		b.HeadRopes(1)
		table := b.Table("token_embd.weight", width, b.Target.NVocab)
		b.Add(kernel.Embed{Dst: both, Table: table, Scale: b.Target.EmbedScale})
		b.Add(kernel.NormRows{
			Dst: both, DstCol: width, Src: p.Hidden, Cols: width, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
		})
		b.Add(kernel.ToAct{Act: act, Src: both, Cols: 2 * width})
		b.Add(kernel.Matmul{Dst: b.X(), Act: act, Parts: []kernel.Part{{Matrix: pre}}})
		for il, sizes := range h.Layers {
			l := b.Layer(il, sizes)
			l.Residual("attn_norm", l.TargetAttention())
			l.Residual("ffn_norm", l.FeedForward(FeedForward{Fn: kernel.GELU, PostNorm: "post_ffw_norm"}))
			l.OutputScale("layer_output_scale.weight")
		}
		step := b.Take()

		m, post := b.Matrix(HeadPrefix+"token_embd.weight", n, h.NVocab),
			b.Matrix(HeadPrefix+"nextn.post_projection.weight", n, width)
		b.DraftsBy(p, step, m, "output_norm", post)
	},
}
