package arch

import "github.com/quern-llm/quern/go/kernel"

// granite is Granite 3: Llama with scales on embeddings, scores, what is added to
// the residual, and logits.
var granite = Arch{
	Name: "granite",
	config: func(k *keys) {
		k.heads()
		graniteConfig(k)
		if k.someExperts(); k.c.NExpert == 0 {
			k.feedForward()
		}
		k.sharedExperts()
		finetuned(k)
	},
	build: graniteBuild,
}

// granitemoe is Granite 3 with experts: softmax routing, in some models a shared expert.
var granitemoe = Arch{
	Name: "granitemoe",
	config: func(k *keys) {
		k.heads()
		graniteConfig(k)
		k.experts()
		k.sharedExperts()
	},
	build: graniteBuild,
}

// granitehybrid is Granite 4 and Bamba: granite or granitemoe with state spaces of the second
// kind in most layers, attention in those with key-value heads, mostly without rotations.
var granitehybrid = Arch{
	Name: "granitehybrid",
	config: func(k *keys) {
		k.mixedHeads()
		graniteConfig(k)
		k.mamba2()
		if k.someExperts(); k.c.NExpert == 0 {
			k.feedForward()
		}
		k.sharedExperts()
		finetuned(k)
	},
	build: graniteBuild,
}

// graniteSWA is Granite 4 with windows: granite or granitemoe with sinks, and rotations in the layers that the file says. Gate
// and up of the shared expert are one matrix.
var graniteSWA = Arch{
	Name: "granite_swa",
	config: func(k *keys) {
		k.heads()
		graniteConfig(k)
		if k.someExperts(); k.c.NExpert == 0 {
			k.feedForward()
		}
		k.c.NFFShared = k.intOr("expert_shared_feed_forward_length", 0, 0, maxFF)
		k.windows(allBut(4))
		const pattern = "attention.rope_pattern"
		if !k.has(pattern) {
			return
		}
		all, err := k.f.Bools(k.name(pattern))
		k.keep(err)
		k.forLayers(pattern, len(all))
		for il := range k.c.Layers {
			if !all[il] {
				k.c.Layers[il].Rope = Rope{}
			}
		}
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{sinks: true}))
			if l.Sparse && b.cfg.NFFShared > 0 {
				l.residual("ffn_norm", l.experts(experts{}), l.feedForward(feedForward{shared: true, fused: true}))
				return
			}
			l.mixture("ffn_norm", experts{})
		})
		b.end("output_norm")
	},
}

// finetuned takes the rotations from models whose files say that there are none, by a key that once meant something else.
func finetuned(k *keys) {
	if !k.boolOr("rope.scaling.finetuned", true) {
		k.noRope()
	}
}

func graniteConfig(k *keys) {
	k.rms()
	k.rope(kernel.RopeNorm)
	k.c.ExpertNorm = true
	k.c.EmbedScale = float32(k.floatOr("embedding_scale", 1, 1e-6, 1e6))
	k.c.ResidualScale = float32(k.floatOr("residual_scale", 1, 1e-6, 1e6))
	k.c.LogitScale = float32(1 / k.floatOr("logit_scale", 1, 1e-6, 1e6))
	if k.has("attention.scale") {
		scale := float32(k.float("attention.scale", 1e-6, 1e6))
		for il := range k.c.Layers {
			k.c.Layers[il].AttnScale = scale
		}
	}
}

func graniteBuild(b *builder) {
	b.begin()
	b.layers(func(l layer) {
		if l.NHeadKV == 0 {
			l.residual("attn_norm", l.mamba2(false))
		} else {
			l.residual("attn_norm", l.attention(attention{}))
		}
		l.mixture("ffn_norm", experts{})
	})
	b.end("output_norm")
}
