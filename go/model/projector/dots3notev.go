package projector

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// dots3NoteV is the encoder of pictures of dots.ocr with norms of queries and keys. Later layers have experts in place of a
// feed-forward, ever more of them (dots3-note, 2026).
var dots3NoteV = Kind{
	Name:    "dots3note_v",
	unsized: true,
	config: func(e *Encoder, k *Keys) {
		e.dots(k, k.IntOr("spatial_merge_size", 2, 1, maxMerge))
		e.QKNorm = NormHead
		c := k.Config
		c.ExpertGating, c.ExpertNorm = kernel.GateSigmoid, true
		c.NExpertUsed = k.Int("expert_used_count", 1, maxExperts)
		for il := range c.Layers {
			n := 0
			if t, ok := e.file.Tensor(fmt.Sprintf("v.blk.%d.ffn_gate_exps.weight", il)); ok {
				if len(t.Dims) != 3 || t.Dims[1] < 1 || t.Dims[1] > MaxFF || t.Dims[2] < 1 || t.Dims[2] > maxExperts {
					k.Check(fmt.Errorf("tensor %q: shape %v, want matrices of 1 to %d rows of at most %d experts", t.Name, t.Dims, MaxFF, maxExperts))
				}
				c.NFFExpert, n = int(t.Dims[1]), int(t.Dims[2])
			}
			e.experts = append(e.experts, n)
		}
	},
	build: func(e *Encoder, b *Builder) {
		e.dotsBegin(b)
		b.TensorPrefix = "v."
		for il, sizes := range e.Config.Layers {
			own := *e.Config
			if own.NExpert = e.experts[il]; own.NExpert > 0 {
				own.NExpertUsed = min(own.NExpertUsed, own.NExpert)
			}
			b.Config = &own
			b.RowLayer(fmt.Sprintf("v.blk.%d.", il), sizes, func(l Layer) {
				l.Residual("ln1", l.Attention(Attention{Out: "attn_out", QKNorm: e.QKNorm}))
				if own.NExpert > 0 {
					l.Residual("ln2", l.Experts(Experts{Fn: e.Fn}))
					return
				}
				l.Residual("ln2", l.FeedForward(FeedForward{Fn: e.Fn}))
			})
		}
		b.Config = e.Config
		e.dotsEnd(b)
	},
	see: dotsocr.see,
}

// maxExperts bounds how many experts a layer has.
const maxExperts = 1 << 10
