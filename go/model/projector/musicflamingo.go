package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// musicflamingo is Whisper's encoder, of which two tokens are averaged, and two layers behind it (Audio Flamingo 3, Goel et
// al. 2025).
var musicflamingo = Kind{
	Name:   "musicflamingo",
	sense:  Hearing,
	config: func(e *Encoder, k *Keys) { e.whisper(k); e.Stack = 2 },
	build: func(e *Encoder, b *Builder) {
		e.heard(b)
		s := b.Mean(2).Norm(kernel.LayerNorm, "a.post_ln")
		s.Applied(kernel.GELUErf, "mm.a.mlp.1").Product("mm.a.mlp.2").Out()
	},
	hear: func(e *Encoder, samples []float32) []Part { return said("<sound>", e.windows(samples), "") },
}
