package arch

import (
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// nanbeige is Nanbeige 4.2: Llama whose layers run several times, with keys and values for each time. Between two times
// is the last norm, unless the file says otherwise.
var nanbeige = Arch{
	Name: "nanbeige",
	config: func(k *Keys) {
		c := k.Config
		k.Dense(kernel.RopeNorm)
		c.Loops = k.IntOr("num_loops", 1, 1, max(MaxLayer/max(len(c.Layers), 1), 1))
		c.LoopNorm = !k.BoolOr("skip_loop_final_norm", false)
		c.Layers = slices.Repeat(c.Layers, c.Loops)
	},
	build: func(b *Builder) {
		all := len(b.Config.Layers)
		each := all / b.Config.Loops
		b.Begin()
		b.Layers(func(l Layer) {
			l = l.WithTensorsOf(l.Index % each)
			llamaLayer(l)
			if b.Config.LoopNorm && (l.Index+1)%each == 0 && l.Index+1 < all {
				b.Normalise("output_norm")
			}
		})
		b.End("output_norm")
	},
}
