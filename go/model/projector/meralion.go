package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// meralion is Whisper's encoder, of which tokens side by side are projected by a gated feed-forward behind a norm of each
// (MERaLiON 2, Huang et al. 2025).
var meralion = Kind{
	Name:   "meralion",
	sense:  Hearing,
	config: func(e *Encoder, k *Keys) { e.stacked(k) },
	build: func(e *Encoder, b *Builder) {
		e.heard(b)
		b.Normalise("a.post_ln")
		s := e.stack(b, "mm.a.norm_pre").Applied(kernel.SiLU, "mm.a.mlp.0")
		s.Gated(kernel.SiLU, "mm.a.mlp.1", "mm.a.mlp.2").Product("mm.a.mlp.3").Out()
	},
	hear: func(e *Encoder, samples []float32) []Part { return e.windows(samples) },
}
