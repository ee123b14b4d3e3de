package arch

import "github.com/quern-llm/quern/go/kernel"

// gemma4 is Gemma 4: layers with a window have heads of another width and another base of
// rotations than those without, which rotate by rope_freqs. Queries and keys are normalised with
// weights, values without, and scores are not scaled. The last layers may read the keys and values
// of others, layers may have an embedding of each token of their own, and some models have experts
// beside the feed-forward.
var gemma4 = Arch{
	Name: "gemma4",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.someExperts()
		k.c.ExpertNorm = true
		k.rope(kernel.RopeNeox)
		k.windows(allBut(6))
		inWindows(k)
		unscaled(k)
		sharedLayers(k, k.intOr("attention.shared_kv_layers", 0, 0, len(k.c.Layers)-1))
		k.perLayer()
		k.embedScale()
		k.c.LogitCap = float32(k.floatOr("final_logit_softcapping", 0, 0, maxCap))
	},
	build: func(b *builder) {
		b.begin()
		if b.cfg.NPerLayer > 0 {
			b.embedPerLayer()
		}
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normHead, value: true, post: "post_attention_norm"}))
			if l.Sparse {
				l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.GELU, beside: true, post: "post_ffw_norm_1"}))
				l.residual("pre_ffw_norm_2", l.experts(experts{fn: kernel.GELU, router: true, post: "post_ffw_norm_2"}))
				l.addBoth("post_ffw_norm")
			} else {
				l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.GELU, post: "post_ffw_norm"}))
			}
			if b.cfg.NPerLayer > 0 {
				l.residual("", l.ownEmbedding("post_norm"))
			}
			l.outputScale()
		})
		b.end("output_norm")
	},
}

// inWindows reads what is different in layers with a window: widths of heads, and rotations.
func inWindows(k *keys) {
	base := k.floatOr("rope.freq_base_swa", 10000, 1.001, 1e15)
	for il := range k.c.Layers {
		l := &k.c.Layers[il]
		if l.Window == 0 {
			continue
		}
		l.HeadDim = k.intOr("attention.key_length_swa", l.HeadDim, 1, maxHeadDim)
		l.ValueDim = k.intOr("attention.value_length_swa", l.ValueDim, 1, maxHeadDim)
		const rotated = "rope.dimension_count_swa"
		if l.Rope.NRot = k.intOr(rotated, min(l.Rope.NRot, l.HeadDim), 2, max(l.HeadDim, 2)); l.Rope.NRot%2 != 0 {
			k.fail(rotated, "%d, want an even number", l.Rope.NRot)
		}
		l.Rope.Base, l.Rope.Scaling, l.Rope.Factors = base, noScaling, ""
	}
}

// unscaled takes the scale from queries. Keys and values have one width, because values may be keys.
func unscaled(k *keys) {
	for il := range k.c.Layers {
		l := &k.c.Layers[il]
		l.AttnScale = 1
		if l.HeadDim != l.ValueDim {
			k.fail("attention.value_length", "%d in layer %d, want the %d of keys", l.ValueDim, il, l.HeadDim)
		}
	}
}

// sharedLayers says that the last n layers have no keys and values of their own.
func sharedLayers(k *keys, n int) {
	own := map[int]Layer{}
	for il := range k.c.Layers {
		l := &k.c.Layers[il]
		if il < len(k.c.Layers)-n {
			own[l.Window] = *l
			continue
		}
		l.Shared = true
		if o, ok := own[l.Window]; !ok || o.NHeadKV != l.NHeadKV || o.HeadDim != l.HeadDim {
			k.fail("attention.shared_kv_layers", "%d: layer %d has no layer before these whose keys and values it could read", n, il)
		}
	}
}
