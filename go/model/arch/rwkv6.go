package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// rwkv6 is RWKV 6 (Finch): no attention, a state of fixed size; the embedding is normalised.
var rwkv6 = Arch{
	Name: "rwkv6",
	config: func(k *Keys) {
		k.LayerNorm()
		k.RWKV6()
		k.FeedForward()
	},
	build: func(b *Builder) {
		b.Begin(func() { b.Normalise("token_embd_norm") })
		b.Layers(func(l Layer) {
			l.TimeMix6("attn_norm")
			l.ChannelMix6("attn_norm_2")
			if n := l.Config.RWKV.Halve; n > 0 && (l.Index+1)%n == 0 { // weights of later layers are larger by as much
				l.Add(kernel.NormRows{
					Dst: l.X(), Src: l.X(), Cols: l.Config.NEmbd, Segs: 1, Kind: kernel.NoNorm,
					Scale: 0.5,
				})
			}
		})
		b.End("output_norm")
	},
}

// rwkv6qwen2 is the time mixing of RWKV 6, without the norm of its result, in place of the attention of Qwen 2.
var rwkv6qwen2 = Arch{
	Name: "rwkv6qwen2",
	config: func(k *Keys) {
		k.RMSNorm()
		k.RWKV6()
		k.Config.RWKV.Bare = true
		k.FeedForward()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.TimeMix6("attn_norm")
			l.Residual("ffn_norm", l.FeedForward(FeedForward{}))
		})
		b.End("output_norm")
	},
}
