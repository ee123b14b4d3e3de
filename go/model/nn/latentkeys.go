package nn

import (
	"math"
	"slices"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
)

// Latents reads the sizes of latent attention. HeadDim of a layer is then the latent with the rotated part. Old files
// have the sizes of heads without _mla.
func (k *Keys) Latents() {
	c := k.Config
	c.Latent = Latent{
		Rank:      k.Int("attention.kv_lora_rank", 1, MaxHeadDim),
		QueryRank: k.IntOr("attention.q_lora_rank", 0, 0, MaxEmbd),
		RopeDim:   k.Int("rope.dimension_count", 2, MaxHeadDim),
		KeyDim:    k.Int(k.ofHeads("attention.key_length"), 1, MaxHeadDim),
	}
	k.Each("attention.head_count", 1, MaxHead, func(l *LayerConfig, n int) { l.NHead, l.NHeadKV = n, 1 })
	c.Latent.ValueDim = k.IntOr(k.ofHeads("attention.value_length"), c.NEmbd/c.Layers[0].NHead, 1, MaxHeadDim)
	n := c.Latent
	if n.RopeDim%kernel.Panel != 0 {
		k.Fail("rope.dimension_count", "%d, want a multiple of %d", n.RopeDim, kernel.Panel)
	}
	k.checkLatent(n, "attention.kv_lora_rank", k.ofHeads("attention.key_length"), k.ofHeads("attention.value_length"))
	for i := range c.Layers {
		l := &c.Layers[i]
		l.HeadDim, l.ValueDim = n.Rank+n.RopeDim, n.Rank
		l.AttnScale = float32(1 / math.Sqrt(float64(n.KeyDim)))
	}
}

// checkLatent fails unless the sizes, which have those keys, are of panels and fit together.
func (k *Keys) checkLatent(n Latent, rank, key, value string) {
	plain := n.KeyDim - n.RopeDim
	switch {
	case plain < 1 || plain%kernel.Panel != 0:
		k.Fail(key, "%d, want a multiple of %d more than the %d that are rotated", n.KeyDim, kernel.Panel, n.RopeDim)
	case n.Rank < plain || n.Rank%kernel.Panel != 0:
		k.Fail(rank, "%d, want a multiple of %d, at least the %d of a head that are not rotated", n.Rank, kernel.Panel,
			plain)
	case n.ValueDim%kernel.Panel != 0:
		k.Fail(value, "%d, want a multiple of %d", n.ValueDim, kernel.Panel)
	}
}

// ofHeads is the key of a width per head, not of what is cached.
func (k *Keys) ofHeads(key string) string {
	if k.Has(key + "_mla") {
		return key + "_mla"
	}
	return key
}

// LatentRope is Rope for latent attention. YaRN's factor of the scores, (1 + 0.1 m ln f)^2, multiplies queries here,
// and files have 0.1 m instead of m. A model without m has no factor, as in DeepSeek's code; llama.cpp then multiplies
// as with m = 1.
//
// likewise: rotated pairs have the same m in both terms of YaRN's length, and so keep their length.
func (k *Keys) LatentRope(likewise bool) {
	k.Rope(kernel.RopeNorm)
	for i := range k.Config.Layers {
		l := &k.Config.Layers[i]
		s := &l.Rope.Scaling
		if s.Type != "yarn" || s.LogMultiplier == 0 {
			continue
		}
		s.LogMultiplier = float64(float32(s.LogMultiplier) / 0.1)
		if likewise {
			s.Mscale = s.LogMultiplier
		}
		grow := 1 + float64(0.1*s.LogMultiplier*exactmath.Log(s.Factor))
		l.AttnScale = float32(float64(grow*grow) / math.Sqrt(float64(k.Config.Latent.KeyDim)))
	}
}

// WindowLatents reads the sizes of latents in layers with a window, which have no indexer.
func (k *Keys) WindowLatents() {
	c, n := k.Config, k.Config.Latent
	n.Index = Index{}
	n.Rank = k.Int("attention.kv_lora_rank_swa", 1, MaxHeadDim)
	n.KeyDim = k.Int("attention.key_length_mla_swa", 1, MaxHeadDim)
	n.ValueDim = k.Int("attention.value_length_mla_swa", 1, MaxHeadDim)
	k.checkLatent(n, "attention.kv_lora_rank_swa", "attention.key_length_mla_swa", "attention.value_length_mla_swa")
	// that of what is kept: it follows
	for _, kept := range []string{"attention.key_length_swa", "attention.value_length_swa"} {
		k.Has(kept)
	}
	c.WindowLatent = n
	const types = "attention.indexer.types"
	indexed := k.Layered(types, func(il int) bool { return c.Layers[il].Window == 0 })
	for il := range c.Layers {
		l := &c.Layers[il]
		if l.Indexed = l.Window == 0; indexed(il) != l.Indexed {
			k.Fail(types, "%v for layer %d, whose window is %d: want those without a window, and no others", indexed(il), il,
				l.Window)
		} else if l.Indexed {
			continue
		}
		l.HeadDim, l.ValueDim = n.Rank+n.RopeDim, n.Rank
		l.AttnScale = float32(1 / math.Sqrt(float64(max(n.KeyDim, 1))))
		c.NextLayers = slices.Repeat([]LayerConfig{*l}, c.NNext) // which have a window as well
	}
}
