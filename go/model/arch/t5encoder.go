package arch

import . "github.com/quern-llm/quern/go/model/nn"

// t5Encoder is the encoder of T5: RMS norms before the sublayers, scores that are not scaled and have biases by
// distance.
var t5Encoder = Arch{
	Name: "t5encoder",
	config: func(k *Keys) {
		k.Config.BothWays = true
		t5Keys(k)
	},
	build: func(b *Builder) {
		b.TensorPrefix = "enc."
		b.Begin()
		b.Layers(func(l Layer) { t5Sublayers(l) })
		b.Vectors("enc.output_norm")
	},
}
