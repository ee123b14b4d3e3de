package arch

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// deepseek4 is DeepSeek V4: a residual of several streams, attention to a window and to keys that stand for 4 or 128
// positions, experts with limits, which in the first layers the token decides, and a shared one.
var deepseek4 = Arch{
	Name: "deepseek4",
	config: func(k *Keys) {
		unlessNext(k, "nextn.eh_proj.weight")
		k.RMSNorm()
		k.Heads()
		k.Experts()
		k.ExpertWeights(kernel.GateSqrtSoftplus, false)
		k.SharedExperts()
		k.ExpertLimits()
		k.HashedExperts()
		k.HyperConnections()
		k.CompressedAttention()
	},
	build: func(b *Builder) {
		b.Begin(b.Split, b.CompressionRopes)
		b.Layers(func(l Layer) {
			l.Connect("hc_attn", func() { l.Residual("attn_norm", l.CompressedAttention()) })
			l.Connect("hc_ffn", func() { l.Mixture("ffn_norm", Experts{}) })
		})
		b.Join("output_hc")
		b.End("output_norm")
	},
}

// unlessNext takes blocks that predict further tokens as layers where the file has none of them: keys of some files
// count what was left out.
func unlessNext(k *Keys, tensor string) {
	n := len(k.Config.Layers)
	if _, ok := k.File.Tensor(fmt.Sprintf("blk.%d.%s", n, tensor)); !ok && k.Config.NNext > 0 {
		k.Config.Layers = make([]LayerConfig, n+k.Config.NNext)
		k.Config.NNext = 0
	}
}
