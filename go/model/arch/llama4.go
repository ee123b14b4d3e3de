package arch

import "github.com/quern-llm/quern/go/kernel"

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
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.experts()
		k.c.ExpertGating = kernel.GateSigmoid
		k.sparseEvery()
		k.sharedExperts()
		k.rope(kernel.RopeNorm)
		if k.has("attention.sliding_window") && k.int("attention.sliding_window", 0, maxCtx) == 0 {
			return // all layers have rotations and see all positions
		}
		for il := range k.c.Layers {
			l := &k.c.Layers[il]
			if (il+1)%4 == 0 {
				l.Rope = Rope{}
				l.Temperature = kernel.Temperature{Scale: llama4Temp, Span: llama4Chunk, Offset: 1}
			} else {
				l.Window, l.Chunked = llama4Chunk, true
			}
		}
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			norm := normNone
			if l.Rope.Style != kernel.RopeNone && b.cfg.NExpert != 128 {
				norm = normPlain
			}
			l.residual("attn_norm", l.attention(attention{norm: norm}))
			l.mixture("ffn_norm", experts{early: true})
		})
		b.end("output_norm")
	},
}
