package nn

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// The keys that most architectures share, by what they describe.

// model reads what every architecture has, and makes the layers.
func (k *Keys) model() {
	k.Config.NCtx = k.Int("context_length", 1, MaxCtx)
	k.Config.NEmbd = k.Int("embedding_length", 1, MaxEmbd)
	blocks := k.Int("block_count", 1, MaxLayer)
	if k.Has("attention.causal") {
		causal, err := k.File.Bool(k.Name("attention.causal"))
		k.Check(err)
		k.Config.BothWays = !causal
	}
	k.pooling()
	if !k.head { // whose layers all do
		k.Config.NNext = k.IntOr("nextn_predict_layers", 0, 0, max(blocks-1, 0))
	}
	k.Config.Layers = make([]LayerConfig, blocks-k.Config.NNext)
}

// RMSNorm reads the epsilon of RMS norms (Zhang and Sennrich 2019).
func (k *Keys) RMSNorm() {
	k.Config.Eps = float32(k.Float("attention.layer_norm_rms_epsilon", 0, 1))
}

// LayerNorm reads the epsilon of layer norms (Ba et al. 2016), which subtract the mean.
func (k *Keys) LayerNorm() {
	k.Config.Norm = kernel.LayerNorm
	k.Config.Eps = float32(k.Float("attention.layer_norm_epsilon", 0, 1))
}

// Heads reads the heads of attention and their widths.
func (k *Keys) Heads() { k.someHeads(false) }

// MixedHeads is Heads for models whose layers without KV heads are no attention.
func (k *Keys) MixedHeads() { k.someHeads(true) }

func (k *Keys) someHeads(mixed bool) {
	layers := k.Config.Layers
	least := 1
	if mixed {
		least = 0
	}
	k.Each("attention.head_count", least, MaxHead, func(l *LayerConfig, n int) { l.NHead, l.NHeadKV = n, n })
	k.eachOr("attention.head_count_kv", least, MaxHead, func(l *LayerConfig, n int) { l.NHeadKV = n })
	for i := range layers {
		l := &layers[i]
		if l.NHeadKV > 0 && (l.NHead == 0 || l.NHead%l.NHeadKV != 0) {
			k.Fail("attention.head_count_kv", "%d, want a divisor of the %d heads", l.NHeadKV, l.NHead)
		}
		if l.NHead == 0 {
			continue
		}
		l.HeadDim = k.Config.NEmbd / l.NHead
		if k.Config.NEmbd%l.NHead != 0 && !k.Has("attention.key_length") {
			k.Fail("attention.head_count", "%d, want a divisor of the embedding length %d", l.NHead, k.Config.NEmbd)
		}
	}
	k.eachOr("attention.key_length", 1, MaxHeadDim, func(l *LayerConfig, n int) { l.HeadDim = n })
	for i := range layers {
		layers[i].ValueDim = layers[i].HeadDim
	}
	k.eachOr("attention.value_length", 1, MaxHeadDim, func(l *LayerConfig, n int) { l.ValueDim = n })
	for i := range layers {
		l := &layers[i]
		l.AttnScale = float32(1 / math.Sqrt(float64(max(l.HeadDim, 1))))
	}
}

// AttnScale reads the scale of scores, if the file says it.
func (k *Keys) AttnScale() {
	if !k.Has("attention.scale") {
		return
	}
	scale := float32(k.Float("attention.scale", 1e-6, 1e6))
	for il := range k.Config.Layers {
		k.Config.Layers[il].AttnScale = scale
	}
}

// FeedForward reads the width of the dense feed-forward.
func (k *Keys) FeedForward() {
	k.Each("feed_forward_length", 1, MaxFF, func(l *LayerConfig, n int) { l.NFF = n })
}

// EmbedScale reads what embeddings are multiplied by, which is usually the root of their width.
func (k *Keys) EmbedScale() {
	k.Config.EmbedScale = float32(k.FloatOr("embedding_scale", math.Sqrt(float64(k.Config.NEmbd)), 1e-6, 1e6))
}

// ALiBi reads whether scores fall with the distance (Press et al. 2022).
func (k *Keys) ALiBi() {
	const bias = "attention.max_alibi_bias"
	switch n := k.FloatOr(bias, 0, 0, 1e3); n {
	case 0:
	case 8:
		k.Config.ALiBi = true
	default:
		k.Fail(bias, "%g is not supported, supported are 0 and 8", n)
	}
}

// ClampQKV reads the limit of queries, keys and values; 0 is none.
func (k *Keys) ClampQKV() { k.Config.AttnLimit = float32(k.FloatOr("attention.clamp_kqv", 0, 0, 1e6)) }
