package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// gemma4 is Gemma 4: layers with a window have heads of another width and another base of
// rotations than those without, which rotate by rope_freqs. Queries and keys are normalised with
// weights, values without, and scores are not scaled. The last layers may read the keys and values
// of others, layers may have an embedding of each token of their own, and some models have experts
// beside the feed-forward.
var gemma4 = Arch{
	Name: "gemma4",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.FeedForward()
		k.OptionalExperts()
		k.ExpertNorm(true)
		k.Rope(kernel.RopeNeox)
		k.Windows(AllBut(6))
		inWindows(k)
		unscaled(k)
		sharedLayers(k, k.IntOr("attention.shared_kv_layers", 0, 0, len(k.Config.Layers)-1))
		k.PerLayerEmbeddings()
		k.EmbedScale()
		if n := k.Config.NEmbd; n != 1536 && n != 2560 { // not E2B and E4B
			k.SeeMedia(func(l *LayerConfig) bool { return l.Window > 0 })
		}
		k.Config.LogitCap = float32(k.FloatOr("final_logit_softcapping", 0, 0, MaxCap))
	},
	build: func(b *Builder) {
		b.Begin()
		if b.Config.NPerLayer > 0 {
			b.EmbedPerLayer()
		}
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormHead, ValueNorm: true,
				PostNorm: "post_attention_norm"}))
			if l.Sparse {
				l.Residual("ffn_norm", l.FeedForward(FeedForward{Fn: kernel.GELU, Beside: true,
					PostNorm: "post_ffw_norm_1"}))
				l.Residual("pre_ffw_norm_2",
					l.Experts(Experts{Fn: kernel.GELU, RouterNorm: true, PostNorm: "post_ffw_norm_2"}))
				l.AddBoth("post_ffw_norm")
			} else {
				l.Residual("ffn_norm", l.FeedForward(FeedForward{Fn: kernel.GELU, PostNorm: "post_ffw_norm"}))
			}
			if b.Config.NPerLayer > 0 {
				l.Residual("", l.OwnEmbedding("post_norm"))
			}
			l.OutputScale("layer_output_scale.weight")
		})
		b.End("output_norm")
	},
}

// inWindows reads what is different in layers with a window: widths of heads, and rotations.
func inWindows(k *Keys) {
	base := k.FloatOr("rope.freq_base_swa", 10000, 1.001, 1e15)
	for il := range k.Config.Layers {
		l := &k.Config.Layers[il]
		if l.Window == 0 {
			continue
		}
		l.HeadDim = k.IntOr("attention.key_length_swa", l.HeadDim, 1, MaxHeadDim)
		l.ValueDim = k.IntOr("attention.value_length_swa", l.ValueDim, 1, MaxHeadDim)
		const rotated = "rope.dimension_count_swa"
		if l.Rope.NRot = k.IntOr(rotated, min(l.Rope.NRot, l.HeadDim), 2, max(l.HeadDim, 2)); l.Rope.NRot%2 != 0 {
			k.Fail(rotated, "%d, want an even number", l.Rope.NRot)
		}
		l.Rope.Base, l.Rope.Scaling, l.Rope.Factors = base, NoScaling, ""
	}
}

// unscaled takes the scale from queries. Keys and values have one width, because values may be keys.
func unscaled(k *Keys) {
	for il := range k.Config.Layers {
		l := &k.Config.Layers[il]
		l.AttnScale = 1
		if l.HeadDim != l.ValueDim {
			k.Fail("attention.value_length", "%d in layer %d, want the %d of keys", l.ValueDim, il, l.HeadDim)
		}
	}
}

// sharedLayers says that the last n layers have no keys and values of their own.
func sharedLayers(k *Keys, n int) {
	own := map[int]LayerConfig{}
	for il := range k.Config.Layers {
		l := &k.Config.Layers[il]
		if il < len(k.Config.Layers)-n {
			own[l.Window] = *l
			continue
		}
		l.SharedKV = true
		if o, ok := own[l.Window]; !ok || o.NHeadKV != l.NHeadKV || o.HeadDim != l.HeadDim {
			k.Fail("attention.shared_kv_layers",
				"%d: layer %d has no layer before these whose keys and values it could read", n, il)
		}
	}
}
