package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// lfm2 is LFM 2: gated short convolutions in most layers, attention where there
// are key-value heads, each head of queries and keys normalised first. The last
// norm is called token_embd_norm.
var lfm2 = Arch{Name: "lfm2", config: lfm2Config, build: lfm2Build}

// lfm2moe is LFM 2 with experts in all but the first layers: sigmoid routing with a correction
// of the choice.
var lfm2moe = Arch{
	Name: "lfm2moe",
	config: func(k *Keys) {
		lfm2Config(k)
		k.Experts()
		k.ExpertWeights(kernel.GateSigmoid, true)
		k.LeadingDense()
	},
	build: lfm2Build,
}

func lfm2Config(k *Keys) {
	k.RMSNorm()
	k.MixedHeads()
	k.FeedForward()
	k.Rope(kernel.RopeNeox)
	if n := k.IntOr("attention.sliding_window", 0, 0, MaxCtx); n > 0 {
		for il := range k.Config.Layers {
			if l := &k.Config.Layers[il]; l.NHeadKV > 0 {
				l.Window = n
			}
		}
	}
	k.Config.NTap = k.Int("shortconv.l_cache", 2, MaxTap)
	if k.Config.NEmbd%kernel.Panel != 0 {
		k.Fail("embedding_length", "%d, want a multiple of %d", k.Config.NEmbd, kernel.Panel)
	}
}

func lfm2Build(b *Builder) {
	b.Begin()
	b.Layers(func(l Layer) {
		if l.NHeadKV == 0 {
			l.Residual("attn_norm", l.ShortConv(b.Config.NTap))
		} else {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormHead}))
		}
		l.Mixture("ffn_norm", Experts{})
	})
	b.End("token_embd_norm")
}
