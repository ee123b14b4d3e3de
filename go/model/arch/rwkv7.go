package arch

import . "github.com/quern-llm/quern/go/model/nn"

// rwkv7 is RWKV 7 (Goose): no attention, a state of fixed size; the embedding is normalised. (llama.cpp built for
// AVX-512 takes 64 channels of a state at once: of narrower heads, which published models do not have, it adds up the
// next one's as well.)
var rwkv7 = Arch{
	Name: "rwkv7",
	config: func(k *Keys) {
		k.LayerNorm()
		k.RWKV7()
		k.FeedForward()
	},
	build: func(b *Builder) {
		b.Begin(func() { b.Normalise("token_embd_norm") })
		b.Layers(func(l Layer) {
			l.TimeMix7("attn_norm")
			l.ChannelMix7("attn_norm_2")
		})
		b.End("output_norm")
	},
}

// arwkv7 is the time mixing of RWKV 7 in place of the attention of a transformer, whose norms and feed-forward it has:
// its gate and the norm of its result may be missing.
var arwkv7 = Arch{
	Name: "arwkv7",
	config: func(k *Keys) {
		k.RMSNorm()
		k.RWKV7()
		k.Config.RWKV.Bare = true
		k.FeedForward()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.TimeMix7("attn_norm")
			l.Residual("ffn_norm", l.FeedForward(FeedForward{}))
		})
		b.End("output_norm")
	},
}
