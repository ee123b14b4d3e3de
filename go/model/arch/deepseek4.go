package arch

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// deepseek4 is DeepSeek V4: a residual of several streams, attention to a window and to keys that stand for 4 or 128
// positions, experts with limits, which in the first layers the token decides, and a shared one.
var deepseek4 = Arch{
	Name: "deepseek4",
	config: func(k *keys) {
		unlessNext(k, "nextn.eh_proj.weight")
		k.rms()
		k.heads()
		k.experts()
		k.expertWeights(kernel.GateSqrtSoftplus, false)
		k.sharedExperts()
		k.limits()
		k.hashed()
		k.hyper()
		k.compression()
	},
	build: func(b *builder) {
		b.begin(b.split, b.compressionRopes)
		b.layers(func(l layer) {
			l.connect("hc_attn", func() { l.residual("attn_norm", l.compressedAttention()) })
			l.connect("hc_ffn", func() { l.mixture("ffn_norm", experts{}) })
		})
		b.join("output_hc")
		b.end("output_norm")
	},
}

// unlessNext takes blocks that predict further tokens as layers where the file has none of them: keys of some files count
// what was left out.
func unlessNext(k *keys, tensor string) {
	n := len(k.c.Layers)
	if _, ok := k.f.Tensor(fmt.Sprintf("blk.%d.%s", n, tensor)); !ok && k.c.NNext > 0 {
		k.c.Layers = make([]Layer, n+k.c.NNext)
		k.c.NNext = 0
	}
}
