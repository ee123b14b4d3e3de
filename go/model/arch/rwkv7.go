package arch

// rwkv7 is RWKV 7 (Goose): no attention, a state of fixed size; the embedding is normalised. (llama.cpp built for AVX-512 takes 64
// channels of a state at once: of narrower heads, which published models do not have, it adds up the next one's as well.)
var rwkv7 = Arch{
	Name: "rwkv7",
	config: func(k *keys) {
		k.layerNorm()
		k.rwkv()
		k.feedForward()
	},
	build: func(b *builder) {
		b.begin(func() { b.normalise("token_embd_norm") })
		b.layers(func(l layer) {
			l.timeMix("attn_norm")
			l.channelMix("attn_norm_2")
		})
		b.end("output_norm")
	},
}

// arwkv7 is the time mixing of RWKV 7 in place of the attention of a transformer, whose norms and feed-forward it has: its
// gate and the norm of its result may be missing.
var arwkv7 = Arch{
	Name: "arwkv7",
	config: func(k *keys) {
		k.rms()
		k.rwkv()
		k.c.RWKV.Bare = true
		k.feedForward()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.timeMix("attn_norm")
			l.residual("ffn_norm", l.feedForward(feedForward{}))
		})
		b.end("output_norm")
	},
}
