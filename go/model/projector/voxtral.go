package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// voxtral is Whisper's encoder, of which tokens side by side are projected (Voxtral, Liu et al. 2025).
var voxtral = Kind{
	Name:   "voxtral",
	sense:  Hearing,
	config: func(e *Encoder, k *Keys) { e.stacked(k) },
	build: func(e *Encoder, b *Builder) {
		e.heard(b)
		e.stack(b, "a.post_ln").Applied(kernel.GELUErf, "mm.a.mlp.1").Product("mm.a.mlp.2").Out()
	},
	hear: func(e *Encoder, samples []float32) []Part { return said("[BEGIN_AUDIO]", e.windows(samples), "") },
}
