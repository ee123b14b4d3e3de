package arch

import (
	. "github.com/quern-llm/quern/go/model/nn"
)

// whisper is Whisper (Radford et al. 2022): an encoder of frames of a mel spectrum, and a decoder that attends to it,
// both with norms before the sublayers, tables of positions, and biases everywhere but in keys.
var whisper = Arch{
	Name: "whisper",
	config: func(k *Keys) {
		k.LayerNorm()
		k.Heads()
		k.FeedForward()
		k.DecoderLayers()
		k.Hears()
		k.Aligns()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Encoder("enc.", func(l Layer) {
			if l.Index == 0 {
				l.Frames()
			}
			bartLayer(l, false)
		})
		b.Decoder("dec.", "enc.output_norm", func(l Layer) { bartLayer(l, false, l.CrossAttention) })
		b.End("dec.output_norm")
	},
}
