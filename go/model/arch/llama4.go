package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// What files of Llama 4 do not say: positions of a chunk, and how queries of layers without
// rotations grow with their position. See its config.json.
const (
	llama4Chunk = 8192
	llama4Temp  = 0.1
)

// llama4 is Llama 4: three layers of four have rotations and see only a chunk of positions, the
// fourth sees all and has none. Sigmoid weights multiply the input of the experts; a shared one
// is beside them. Queries and keys are normalised without weights after the rotation, which is
// the same before it; the model of 128 experts does not.
var llama4 = Arch{
	Name: "llama4",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.FeedForward()
		k.Experts()
		k.Config.ExpertGating = kernel.GateSigmoid
		k.InterleavedExperts()
		k.SharedExperts()
		k.Rope(kernel.RopeNorm)
		if k.Has("attention.sliding_window") && k.Int("attention.sliding_window", 0, MaxCtx) == 0 {
			return // all layers have rotations and see all positions
		}
		for il := range k.Config.Layers {
			l := &k.Config.Layers[il]
			if (il+1)%4 == 0 {
				l.Rope = Rope{}
				l.Temperature = kernel.Temperature{Scale: llama4Temp, Span: llama4Chunk, Offset: 1}
			} else {
				l.Window, l.Chunked = llama4Chunk, true
			}
		}
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			norm := NormNone
			if l.Rope.Style != kernel.RopeNone && b.Config.NExpert != 128 {
				norm = NormUnweighted
			}
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: norm}))
			l.Mixture("ffn_norm", Experts{WeighInput: true})
		})
		b.End("output_norm")
	},
}
