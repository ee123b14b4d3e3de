package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// glma is Whisper's encoder, whose tokens turn by their places in place of bringing embeddings of them. A norm follows, and four
// tokens side by side become a row (GLM-ASR, Zhipu AI 2025).
var glma = Kind{
	Name:  "glma",
	sense: Hearing,
	config: func(e *Encoder, k *Keys) {
		e.stacked(k)
		for i := range k.Config.Layers {
			l := &k.Config.Layers[i]
			if l.HeadDim%4 != 0 {
				k.Fail("attention.head_count", "heads of %d dimensions, want a multiple of 4 to rotate a half", l.HeadDim)
			}
			l.Rope = Rope{Style: kernel.RopeNorm, NRot: l.HeadDim / 2, Base: 10000, Scaling: NoScaling}
		}
		for _, name := range []string{"v.boi", "v.eoi"} { // so called in files
			e.breaks = append(e.breaks, e.table(k, name, e.Width).row(0))
		}
	},
	build: func(e *Encoder, b *Builder) {
		frames, _ := e.frames()
		b.Convolved(e.Config.Sound.Bands)
		b.BringMask(frames + 3)
		b.BegunRows()
		e.layers(b, nil)
		e.stack(b, "mm.a.norm_pre").Applied(kernel.GELUErf, "mm.a.mlp.1").Product("mm.a.mlp.2").Out()
	},
	Ask: Ask{Text: "Please transcribe this audio into text"},
	hear: func(e *Encoder, samples []float32) []Part {
		each := 2 * e.tables[soundPositions].rows * prepare.MelHop
		parts := e.windows(samples)
		for i, part := range parts {
			in, n := part.Input, min(len(samples)-i*each, each)
			tokens := (n/prepare.MelHop + 1) / 2 // of which none is silence only
			in.Breaks, in.Order = e.breaks, []int32{-1}
			for row := range max(tokens/e.Stack, 1) {
				in.Order = append(in.Order, int32(row))
			}
			in.Order = append(in.Order, -2)
		}
		return parts
	},
}
