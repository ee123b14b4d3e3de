package arch

// refact is Refact 1.6B: Llama with ALiBi in place of rotations.
var refact = Arch{
	Name: "refact",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.c.ALiBi = true
	},
	build: llama.build,
}
