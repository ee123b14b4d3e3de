package arch

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// What older files of Gemma 3n do not say: how many layers have keys and values of their own, and
// how many a sparse feed-forward, in which one in twenty numbers is kept if they are normal: those
// that lie a given number of standard deviations above the mean. See its config.json.
const (
	gemma3nOwn    = 20
	gemma3nSparse = 10
	gemma3nCutoff = 1.6448533535003662
)

// gemma3n is Gemma 3n: the attention of Gemma 4, with one width of heads, in a residual of several
// streams, a projection of low rank beside it, and sparse feed-forwards in the first layers.
var gemma3n = Arch{
	Name: "gemma3n",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		k.Windows(AllBut(5))
		base := k.FloatOr("rope.freq_base_swa", 10000, 1.001, 1e15)
		for il := range k.Config.Layers {
			l := &k.Config.Layers[il]
			l.Rope.Factors = ""
			if l.Window > 0 {
				l.Rope.Base, l.Rope.Scaling = base, NoScaling
			}
		}
		unscaled(k)
		n := len(k.Config.Layers)
		sharedLayers(k, k.IntOr("attention.shared_kv_layers", max(n-gemma3nOwn, 0), 0, n-1))
		k.PerLayerEmbeddings()
		if k.Config.NPerLayer == 0 || k.Config.NEmbd%kernel.Panel != 0 {
			k.Fail("embedding_length_per_layer_input", "%d of %d, want more than 0, and multiples of %d",
				k.Config.NPerLayer, k.Config.NEmbd, kernel.Panel)
		}
		sparseFeedForward(k)
		k.Config.AltUp = true
		k.LaurelRank()
		k.EmbedScale()
		k.Config.LogitCap = float32(k.FloatOr("final_logit_softcapping", 30, 0, MaxCap))
	},
	build: func(b *Builder) {
		b.Begin()
		b.EmbedPerLayer()
		b.Spread()
		b.Layers(func(l Layer) {
			l.Predict()
			l.Residual("attn_norm", l.Laurel(),
				l.Attention(Attention{QKNorm: NormHead, ValueNorm: true, PostNorm: "post_attention_norm"}))
			l.AddLaurel()
			l.Residual("ffn_norm", l.FeedForward(FeedForward{Fn: kernel.GELU, PostNorm: "post_ffw_norm"}))
			l.Correct()
			l.StreamEmbedding()
		})
		b.Merge()
		b.End("output_norm")
	},
}

// sparseFeedForward reads how far above the mean the gates are that stay open, in standard deviations:
// for each layer, minus infinity where all are open.
func sparseFeedForward(k *Keys) {
	const name = "activation_sparsity_scale"
	if !k.Has(name) {
		for il := range min(gemma3nSparse, len(k.Config.Layers)) {
			k.Config.Layers[il].GateCutoff = gemma3nCutoff
		}
		return
	}
	all, err := k.File.Floats(k.Name(name))
	k.Check(err)
	k.ForLayers(name, len(all))
	for il := range k.Config.Layers {
		switch v := float64(all[il]); {
		case v > 0 && v < 100:
			k.Config.Layers[il].GateCutoff = all[il]
		case !math.IsInf(v, -1):
			k.Fail(name, "%v in layer %d, want -Inf, or more than 0 and less than 100", v, il)
		}
	}
}
