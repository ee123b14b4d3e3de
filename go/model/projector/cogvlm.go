package projector

import (
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// cogvlm is EVA2-CLIP, whose norms are behind sublayers, and a gated feed-forward behind a norm. The rows, but for that behind them,
// are those of the text model's experts of what is seen (CogVLM, Wang et al. 2023).
var cogvlm = Kind{
	Name: "cogvlm",
	config: func(e *Encoder, k *Keys) {
		e.fixedPositions(k)
		k.Config.Norm = kernel.LayerNorm
		e.Extra = len(Seen)
		e.breaks = [][]float32{
			slices.Concat(e.table(k, "v.boi", e.Width).row(0), Seen[:]), slices.Concat(e.table(k, "v.eoi", e.Width).row(0), Unseen[:]),
		}
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		b.TensorPrefix = "v."
		b.RowLayers(func(l Layer) {
			l.Residual("", l.Attention(Attention{Out: "attn_out", PostNorm: "ln1"}))
			l.Residual("", l.FeedForward(FeedForward{Fn: kernel.GELUErf, Ungated: true, PostNorm: "ln2"}))
		}, nil)
		end := *e.Config
		end.PostEps = 1e-5 // of torch's LayerNorm
		b.Config = &end
		b.Beside(1).Constant("what is seen", Seen[:]).Out()
		s := b.Beside(1).Product("mm.model.fc").Norm(kernel.LayerNorm, "mm.post_fc_norm").Function(kernel.GELUErf)
		s.Gated(kernel.SiLU, "mm.gate", "mm.up").Product("mm.down").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		in := e.fixed(prepare.Resize(p, e.Side, e.Side, prepare.Bicubic)) // as build_conversation_input_ids of its publisher's code
		in.Breaks, in.OnePlace = e.breaks, true
		in.Order = append(in.Order, -1)
		for i := range in.Made {
			in.Order = append(in.Order, int32(i))
		}
		in.Order = append(in.Order, -2)
		return []Part{{Input: in}}
	},
}
