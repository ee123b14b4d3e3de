package arch

import "github.com/quern-llm/quern/go/kernel"

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

// rwkv reads the sizes of the time mixing.
func (k *keys) rwkv() {
	r := &k.c.RWKV
	r.HeadDim = k.int("wkv.head_size", 1, maxHeadDim)
	r.Decay = k.int("attention.decay_lora_rank", 1, maxEmbd)
	r.Rate = k.int("attention.iclr_lora_rank", 1, maxEmbd)
	r.Value = k.int("attention.value_residual_mix_lora_rank", 1, maxEmbd)
	r.Gate = k.intOr("attention.gate_lora_rank", 0, 0, maxEmbd)
	k.rwkvHeads()
}

// rwkvHeads checks that the heads of time mixing are of whole panels.
func (k *keys) rwkvHeads() {
	c, r := k.c, k.c.RWKV
	if r.HeadDim%kernel.Panel != 0 || c.NEmbd%r.HeadDim != 0 {
		k.fail("wkv.head_size", "%d, want a multiple of %d and a divisor of the embedding length %d", r.HeadDim, kernel.Panel, c.NEmbd)
	}
}
