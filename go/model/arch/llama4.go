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
		llama4Layers(k)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			norm := NormNone
			if l.Rope.Style != kernel.RopeNone && b.Config.QKNorm {
				norm = NormUnweighted
			}
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: norm}))
			l.Mixture("ffn_norm", Experts{WeighInput: true})
		})
		b.End("output_norm")
	},
}

// llama4Layers reads which layers see a chunk, which have rotations, and how queries of the others grow with their
// position.
func llama4Layers(k *Keys) {
	c := k.Config
	c.QKNorm = k.BoolOr("quern.attention.qk_norm", c.NExpert != 128)
	all := k.Has("attention.sliding_window") && k.Int("attention.sliding_window", 0, MaxCtx) == 0
	usual := func(il int) bool { return all || (il+1)%4 != 0 }
	chunk := k.IntOr("quern.attention.chunk_size", llama4Chunk, 1, MaxCtx)
	grows := kernel.Temperature{
		Scale:  float32(k.FloatOr("quern.attention.temperature_scale", llama4Temp, 0, 1e3)),
		Span:   k.IntOr("quern.attention.temperature_length", llama4Chunk, 1, MaxCtx),
		Offset: 1,
	}
	chunked := k.Layered("quern.attention.chunk_pattern", func(il int) bool { return !all && usual(il) })
	rotates := k.Layered(RopePattern, usual)
	for il := range c.Layers {
		l := &c.Layers[il]
		if chunked(il) {
			l.Window, l.Chunked = chunk, true
		}
		if !rotates(il) {
			l.Rope = Rope{}
			if grows.Scale > 0 {
				l.Temperature = grows
			}
		}
	}
}
