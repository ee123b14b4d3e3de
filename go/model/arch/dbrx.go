package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// dbrx is DBRX: norms with a mean, queries, keys and values within a limit, and experts whose weights sum to 1 behind a
// norm that files call that of the attention's output.
var dbrx = Arch{
	Name: "dbrx",
	config: func(k *Keys) {
		k.LayerNorm()
		k.Heads()
		k.ClampQKV()
		k.Experts()
		k.ExpertNorm(true)
		k.Rope(kernel.RopeNeox)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{}))
			l.Mixture("attn_output_norm", Experts{})
		})
		b.End("output_norm")
	},
}
