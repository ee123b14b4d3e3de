package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// adapter is SigLIP, of whose patches a convolution makes rows, and a gated feed-forward. Before and behind them are the
// embeddings of the beginning and the end of a picture (GLM-Edge-V, 2024).
var adapter = Kind{
	Name: "adapter",
	config: func(e *Encoder, k *Keys) {
		e.Merge = 2
		e.swapped(k, "v.")
		e.fixedPositions(k)
		k.Config.Norm, k.Config.PostEps = kernel.LayerNorm, 1e-5
		e.breaks = [][]float32{e.table(k, "adapter.boi", e.Width).row(0), e.table(k, "adapter.eoi", e.Width).row(0)}
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		e.layers(b, nil)
		b.NormaliseOptional("v.post_ln")
		n := e.Merge * e.Merge
		s := b.Beside(n).Merged("adapter.conv", n).Product("adapter.linear.linear")
		s = s.Norm(kernel.LayerNorm, "adapter.linear.norm1").Function(kernel.GELUErf)
		s.Gated(kernel.SiLU, "adapter.linear.gate", "adapter.linear.dense_h_to_4h").Product("adapter.linear.dense_4h_to_h").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		in := e.fixed(prepare.Resize(p, e.Side, e.Side, prepare.Bicubic))
		in.Breaks, in.Order = e.breaks, []int32{-1}
		for i := range in.Made {
			in.Order = append(in.Order, int32(i))
		}
		in.Order = append(in.Order, -2)
		in.Grid.Columns, in.Grid.Rows = 0, 0
		return []Part{{Input: in}}
	},
}
