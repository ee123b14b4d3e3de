package arch

import "github.com/quern-llm/quern/go/kernel"

// rwkv6 is RWKV 6 (Finch): no attention, a state of fixed size; the embedding is normalised.
var rwkv6 = Arch{
	Name: "rwkv6",
	config: func(k *keys) {
		k.layerNorm()
		k.rwkv6()
		k.feedForward()
	},
	build: func(b *builder) {
		b.begin(func() { b.normalise("token_embd_norm") })
		b.layers(func(l layer) {
			l.timeMix6("attn_norm")
			l.channelMix6("attn_norm_2")
			if n := l.cfg.RWKV.Halve; n > 0 && (l.il+1)%n == 0 { // weights of later layers are larger by as much
				l.add(kernel.NormRows{Dst: l.x(), Src: l.x(), Cols: l.cfg.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: 0.5})
			}
		})
		b.end("output_norm")
	},
}

// rwkv6qwen2 is the time mixing of RWKV 6, without the norm of its result, in place of the attention of Qwen 2.
var rwkv6qwen2 = Arch{
	Name: "rwkv6qwen2",
	config: func(k *keys) {
		k.rms()
		k.rwkv6()
		k.c.RWKV.Bare = true
		k.feedForward()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.timeMix6("attn_norm")
			l.residual("ffn_norm", l.feedForward(feedForward{}))
		})
		b.end("output_norm")
	},
}
