package arch

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// The keys that most architectures share, by what they describe.

// model reads what every architecture has, and makes the layers.
func (k *keys) model() {
	k.c.NCtx = k.int("context_length", 1, maxCtx)
	k.c.NEmbd = k.int("embedding_length", 1, maxEmbd)
	blocks := k.int("block_count", 1, maxLayer)
	if k.has("attention.causal") {
		causal, err := k.f.Bool(k.name("attention.causal"))
		k.keep(err)
		k.c.BothWays = !causal
	}
	k.pooling()
	if !k.head { // whose layers all do
		k.c.NNext = k.intOr("nextn_predict_layers", 0, 0, max(blocks-1, 0))
	}
	k.c.Layers = make([]Layer, blocks-k.c.NNext)
}

// rms reads the epsilon of RMS norms.
func (k *keys) rms() {
	k.c.Eps = float32(k.float("attention.layer_norm_rms_epsilon", 0, 1))
}

// layerNorm reads the epsilon of norms that take the mean away.
func (k *keys) layerNorm() {
	k.c.Norm = kernel.LayerNorm
	k.c.Eps = float32(k.float("attention.layer_norm_epsilon", 0, 1))
}

// heads reads the shape of the attention, which all layers have.
func (k *keys) heads() { k.someHeads(false) }

// mixedHeads is heads where layers without key-value heads are of another kind.
func (k *keys) mixedHeads() { k.someHeads(true) }

func (k *keys) someHeads(mixed bool) {
	layers := k.c.Layers
	least := 1
	if mixed {
		least = 0
	}
	k.each("attention.head_count", least, maxHead, func(l *Layer, n int) { l.NHead, l.NHeadKV = n, n })
	k.eachOr("attention.head_count_kv", least, maxHead, func(l *Layer, n int) { l.NHeadKV = n })
	for i := range layers {
		l := &layers[i]
		if l.NHeadKV > 0 && (l.NHead == 0 || l.NHead%l.NHeadKV != 0) {
			k.fail("attention.head_count_kv", "%d, want a divisor of the %d heads", l.NHeadKV, l.NHead)
		}
		if l.NHead == 0 {
			continue
		}
		l.HeadDim = k.c.NEmbd / l.NHead
		if k.c.NEmbd%l.NHead != 0 && !k.has("attention.key_length") {
			k.fail("attention.head_count", "%d, want a divisor of the embedding length %d", l.NHead, k.c.NEmbd)
		}
	}
	k.eachOr("attention.key_length", 1, maxHeadDim, func(l *Layer, n int) { l.HeadDim = n })
	for i := range layers {
		layers[i].ValueDim = layers[i].HeadDim
	}
	k.eachOr("attention.value_length", 1, maxHeadDim, func(l *Layer, n int) { l.ValueDim = n })
	for i := range layers {
		l := &layers[i]
		l.AttnScale = float32(1 / math.Sqrt(float64(max(l.HeadDim, 1))))
	}
}

// feedForward reads the width of the dense part.
func (k *keys) feedForward() {
	k.each("feed_forward_length", 1, maxFF, func(l *Layer, n int) { l.NFF = n })
}

// embedScale says that embeddings are multiplied by the root of their width.
func (k *keys) embedScale() { k.c.EmbedScale = float32(math.Sqrt(float64(k.c.NEmbd))) }

// alibi reads whether scores fall with the distance.
func (k *keys) alibi() {
	const bias = "attention.max_alibi_bias"
	switch n := k.floatOr(bias, 0, 0, 1e3); n {
	case 0:
	case 8:
		k.c.ALiBi = true
	default:
		k.fail(bias, "%g is not supported, supported are 0 and 8", n)
	}
}

// clamp reads what queries, keys and values are held within; 0 is how some files say that they are not.
func (k *keys) clamp() { k.c.AttnLimit = float32(k.floatOr("attention.clamp_kqv", 0, 0, 1e6)) }
