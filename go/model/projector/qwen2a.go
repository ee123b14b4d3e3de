package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// qwen2a is Whisper's encoder, of which two tokens are averaged (Qwen2-Audio, Chu et al. 2024).
var qwen2a = Kind{
	Name:   "qwen2a",
	sense:  Hearing,
	config: func(e *Encoder, k *Keys) { e.whisper(k); e.Stack = 2 },
	build: func(e *Encoder, b *Builder) {
		e.heard(b)
		b.Mean(2).Norm(kernel.LayerNorm, "a.post_ln").Product("mm.a.fc").Out()
	},
	hear: func(e *Encoder, samples []float32) []Part {
		return said("<|audio_bos|>", e.windows(samples), "<|audio_eos|>")
	},
}
