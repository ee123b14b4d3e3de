package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// ultravox is Whisper's encoder, of which tokens side by side are projected by a gated feed-forward with two norms
// (UltravoxProjector in ultravox_model.py of fixie-ai/ultravox-v0_5).
var ultravox = Kind{
	Name:   "ultravox",
	sense:  Hearing,
	config: func(e *Encoder, k *Keys) { e.stacked(k); k.Config.PostEps = 1e-6 },
	build: func(e *Encoder, b *Builder) {
		e.heard(b)
		s := e.stack(b, "a.post_ln").Norm(kernel.RMS, "mm.a.norm_pre").Halves(kernel.SiLU, "mm.a.mlp.1")
		s.Norm(kernel.RMS, "mm.a.norm_mid").Product("mm.a.mlp.2").Out()
	},
	hear: func(e *Encoder, samples []float32) []Part { return e.windows(samples) },
}
