package arch

import "github.com/quern-llm/quern/go/kernel"

// lfm2 is LFM 2: gated short convolutions in most layers, attention where there
// are key-value heads, each head of queries and keys normalised first. The last
// norm is called token_embd_norm.
var lfm2 = Arch{Name: "lfm2", config: lfm2Config, build: lfm2Build}

// lfm2moe is LFM 2 with experts in all but the first layers: sigmoid routing with a correction
// of the choice.
var lfm2moe = Arch{
	Name: "lfm2moe",
	config: func(k *keys) {
		lfm2Config(k)
		k.experts()
		k.expertWeights(kernel.GateSigmoid, true)
		k.denseLead()
	},
	build: lfm2Build,
}

func lfm2Config(k *keys) {
	k.rms()
	k.mixedHeads()
	k.feedForward()
	k.rope(kernel.RopeNeox)
	if n := k.intOr("attention.sliding_window", 0, 0, maxCtx); n > 0 {
		for il := range k.c.Layers {
			if l := &k.c.Layers[il]; l.NHeadKV > 0 {
				l.Window = n
			}
		}
	}
	k.c.NTap = k.int("shortconv.l_cache", 2, maxTap)
	if k.c.NEmbd%kernel.Panel != 0 {
		k.fail("embedding_length", "%d, want a multiple of %d", k.c.NEmbd, kernel.Panel)
	}
}

func lfm2Build(b *builder) {
	b.begin()
	b.layers(func(l layer) {
		if l.NHeadKV == 0 {
			l.residual("attn_norm", l.convolution(b.cfg.NTap))
		} else {
			l.residual("attn_norm", l.attention(attention{norm: normHead}))
		}
		l.mixture("ffn_norm", experts{})
	})
	b.end("token_embd_norm")
}
