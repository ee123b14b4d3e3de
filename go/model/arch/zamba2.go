package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// zamba2 is Zamba2: state spaces of the second kind in all layers. Some layers also have attention and a feed-forward,
// whose weights are those of one or two blocks in turns, with adapters for each use; the state space reads their result
// and not the residual.
var zamba2 = Arch{
	Name: "zamba2",
	config: func(k *Keys) {
		k.RMSNorm()
		k.MixedHeads()
		k.AttnScale()
		k.FeedForward()
		k.Mamba2()
		k.Config.Scan.Eps = 1e-5 // whatever that of the other norms is
		k.SharedBlocks()
		if k.Has("rope.freq_base") {
			k.Rope(kernel.RopeNeox)
		}
	},
	build: func(b *Builder) {
		b.Begin(b.KeepFirst)
		b.Layers(func(l Layer) {
			if l.NHeadKV == 0 {
				l.Residual("attn_norm", l.Mamba2(false))
				return
			}
			l.ResidualBeside("attn_norm", l.SharedBlock(), l.Mamba2(false))
		})
		b.End("output_norm")
	},
}
