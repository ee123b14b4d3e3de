package arch

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
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
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
		k.windows(allBut(5))
		base := k.floatOr("rope.freq_base_swa", 10000, 1.001, 1e15)
		for il := range k.c.Layers {
			l := &k.c.Layers[il]
			l.Rope.Factors = ""
			if l.Window > 0 {
				l.Rope.Base, l.Rope.Scaling = base, noScaling
			}
		}
		unscaled(k)
		n := len(k.c.Layers)
		sharedLayers(k, k.intOr("attention.shared_kv_layers", max(n-gemma3nOwn, 0), 0, n-1))
		k.perLayer()
		if k.c.NPerLayer == 0 || k.c.NEmbd%kernel.Panel != 0 {
			k.fail("embedding_length_per_layer_input", "%d of %d, want more than 0, and multiples of %d", k.c.NPerLayer, k.c.NEmbd, kernel.Panel)
		}
		sparseFeedForward(k)
		k.embedScale()
		k.c.LogitCap = float32(k.floatOr("final_logit_softcapping", 30, 0, maxCap))
	},
	build: func(b *builder) {
		b.begin()
		b.embedPerLayer()
		b.spread()
		b.layers(func(l layer) {
			l.predict()
			l.residual("attn_norm", l.laurel(), l.attention(attention{norm: normHead, value: true, post: "post_attention_norm"}))
			l.addLaurel()
			l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.GELU, post: "post_ffw_norm"}))
			l.correct()
			l.embed()
		})
		b.merge()
		b.end("output_norm")
	},
}

// sparseFeedForward reads how far above the mean the gates are that stay open, in standard deviations:
// for each layer, minus infinity where all are open.
func sparseFeedForward(k *keys) {
	const name = "activation_sparsity_scale"
	if !k.has(name) {
		for il := range min(gemma3nSparse, len(k.c.Layers)) {
			k.c.Layers[il].GateCutoff = gemma3nCutoff
		}
		return
	}
	all, err := k.f.Floats(k.name(name))
	k.keep(err)
	k.forLayers(name, len(all))
	for il := range k.c.Layers {
		switch v := float64(all[il]); {
		case v > 0 && v < 100:
			k.c.Layers[il].GateCutoff = all[il]
		case !math.IsInf(v, -1):
			k.fail(name, "%v in layer %d, want -Inf, or more than 0 and less than 100", v, il)
		}
	}
}
