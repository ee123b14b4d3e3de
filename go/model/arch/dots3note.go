package arch

import (
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// dots3note is the part of dots3-note that reads and writes text: attention over latents with a gate for each head, to a window in most layers, whose
// latents have sizes of their own, and in the others to positions that an index chooses; sigmoid routing with a correction of the choice,
// shared experts, dense first layers. What is rotated of a key is normalised before.
var dots3note = Arch{
	Name: "dots3note",
	config: func(k *keys) {
		k.rms()
		k.latents()
		k.feedForward()
		k.experts()
		k.expertWeights(kernel.GateSigmoid, false)
		k.denseLead()
		k.sharedExperts()
		k.rope(kernel.RopeNorm)
		k.listedWindows()
		k.indexes(kernel.RopeNeox)
		k.windowLatents()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.latentAttention(latent{gate: gateHead}))
			l.mixture("ffn_norm", experts{})
		})
		b.end("output_norm")
	},
}

// windowLatents reads the sizes of the latents of layers with a window, which have no index.
func (k *keys) windowLatents() {
	c, n := k.c, k.c.Latent
	n.Index = Index{}
	n.Rank = k.int("attention.kv_lora_rank_swa", 1, maxHeadDim)
	n.KeyDim = k.int("attention.key_length_mla_swa", 1, maxHeadDim)
	n.ValueDim = k.int("attention.value_length_mla_swa", 1, maxHeadDim)
	plain := n.KeyDim - n.RopeDim
	switch {
	case plain < 1 || plain%kernel.Panel != 0:
		k.fail("attention.key_length_mla_swa", "%d, want a multiple of %d more than the %d that are rotated", n.KeyDim, kernel.Panel, n.RopeDim)
	case n.Rank < plain || n.Rank%kernel.Panel != 0:
		k.fail("attention.kv_lora_rank_swa", "%d, want a multiple of %d, at least the %d of a head that are not rotated", n.Rank, kernel.Panel, plain)
	case n.ValueDim%kernel.Panel != 0:
		k.fail("attention.value_length_mla_swa", "%d, want a multiple of %d", n.ValueDim, kernel.Panel)
	}
	for _, kept := range []string{"attention.key_length_swa", "attention.value_length_swa"} { // that of what is kept: it follows
		k.has(kept)
	}
	c.WindowLatent = n
	for il := range c.Layers {
		l := &c.Layers[il]
		if l.Indexed = l.Window == 0; l.Indexed {
			continue
		}
		l.HeadDim, l.ValueDim = n.Rank+n.RopeDim, n.Rank
		l.AttnScale = float32(1 / math.Sqrt(float64(max(n.KeyDim, 1))))
		c.NextLayers = slices.Repeat([]Layer{*l}, c.NNext) // which have a window as well
	}
}
