package arch

import (
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// nanbeige is Nanbeige 4.2: Llama whose layers run several times, with keys and values for each time. Between two times is the last
// norm, unless the file says otherwise.
var nanbeige = Arch{
	Name: "nanbeige",
	config: func(k *keys) {
		c := k.c
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNorm)
		c.Loops = k.intOr("num_loops", 1, 1, max(maxLayer/max(len(c.Layers), 1), 1))
		c.LoopNorm = !k.boolOr("skip_loop_final_norm", false)
		c.Layers = slices.Repeat(c.Layers, c.Loops)
	},
	build: func(b *builder) {
		all := len(b.cfg.Layers)
		each := all / b.cfg.Loops
		b.begin()
		b.layers(func(l layer) {
			l = l.withTensorsOf(l.il % each)
			llamaLayer(l)
			if b.cfg.LoopNorm && (l.il+1)%each == 0 && l.il+1 < all {
				b.normalise("output_norm")
			}
		})
		b.end("output_norm")
	},
}
