package arch

// t5Encoder is the encoder of T5: RMS norms before the sublayers, scores that are not scaled and have biases by
// distance.
var t5Encoder = Arch{
	Name: "t5encoder",
	config: func(k *keys) {
		k.c.BothWays = true
		t5Keys(k)
	},
	build: func(b *builder) {
		b.stem = "enc."
		b.begin()
		b.layers(func(l layer) { t5Sublayers(l) })
		b.vectors("enc.output_norm")
	},
}
