package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// granite is Granite 3: Llama with scales on embeddings, scores, what is added to
// the residual, and logits.
var granite = Arch{
	Name: "granite",
	config: func(k *Keys) {
		k.Heads()
		graniteConfig(k)
		if k.OptionalExperts(); k.Config.NExpert == 0 {
			k.FeedForward()
		}
		k.SharedExperts()
		finetuned(k)
	},
	build: graniteBuild,
}

// granitemoe is Granite 3 with experts: softmax routing, in some models a shared expert.
var granitemoe = Arch{
	Name: "granitemoe",
	config: func(k *Keys) {
		k.Heads()
		graniteConfig(k)
		k.Experts()
		k.SharedExperts()
	},
	build: graniteBuild,
}

// granitehybrid is Granite 4 and Bamba: granite or granitemoe with state spaces of the second
// kind in most layers, attention in those with key-value heads, mostly without rotations.
var granitehybrid = Arch{
	Name: "granitehybrid",
	config: func(k *Keys) {
		k.MixedHeads()
		graniteConfig(k)
		k.Mamba2()
		if k.OptionalExperts(); k.Config.NExpert == 0 {
			k.FeedForward()
		}
		k.SharedExperts()
		finetuned(k)
	},
	build: graniteBuild,
}

// graniteSWA is Granite 4 with windows: granite or granitemoe with sinks, and rotations in the layers that the file
// says. Gate and up of the shared expert are one matrix.
var graniteSWA = Arch{
	Name: "granite_swa",
	config: func(k *Keys) {
		k.Heads()
		graniteConfig(k)
		if k.OptionalExperts(); k.Config.NExpert == 0 {
			k.FeedForward()
		}
		k.Config.NFFShared = k.IntOr("expert_shared_feed_forward_length", 0, 0, MaxFF)
		k.Windows(AllBut(4))
		const pattern = "attention.rope_pattern"
		if !k.Has(pattern) {
			return
		}
		all, err := k.File.Bools(k.Name(pattern))
		k.Check(err)
		k.ForLayers(pattern, len(all))
		for il := range k.Config.Layers {
			if !all[il] {
				k.Config.Layers[il].Rope = Rope{}
			}
		}
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{Sinks: true}))
			if l.Sparse && b.Config.NFFShared > 0 {
				l.Residual("ffn_norm", l.Experts(Experts{}), l.FeedForward(FeedForward{Shared: true, Fused: true}))
				return
			}
			l.Mixture("ffn_norm", Experts{})
		})
		b.End("output_norm")
	},
}

// finetuned takes the rotations from models whose files say that there are none, by a key that once meant something
// else.
func finetuned(k *Keys) {
	if !k.BoolOr("rope.scaling.finetuned", true) {
		k.NoRope()
	}
}

func graniteConfig(k *Keys) {
	k.RMSNorm()
	k.Rope(kernel.RopeNorm)
	k.ExpertNorm(true)
	k.Config.EmbedScale = float32(k.FloatOr("embedding_scale", 1, 1e-6, 1e6))
	k.DeepStackAt()
	k.Config.ScalesMedia = k.Config.Deepstack == nil // Granite Vision 4 adds its rows to what has been scaled
	k.Config.ResidualScale = float32(k.FloatOr("residual_scale", 1, 1e-6, 1e6))
	k.Config.LogitScale = float32(1 / k.FloatOr("logit_scale", 1, 1e-6, 1e6))
	k.AttnScale()
}

func graniteBuild(b *Builder) {
	b.Begin()
	b.Layers(func(l Layer) {
		if l.NHeadKV == 0 {
			l.Residual("attn_norm", l.Mamba2(false))
		} else {
			l.Residual("attn_norm", l.Attention(Attention{}))
		}
		l.Mixture("ffn_norm", Experts{})
	})
	b.End("output_norm")
}
