package arch

import (
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// t5 is T5 and its kin (FLAN-T5, mT5, MADLAD): an encoder as that of t5encoder, and a decoder that attends to its
// result between the sublayers of such layers. The first T5 has ReLU without a gate, those behind it GELU with one.
// Where the embedding is the output matrix too, the first T5 divided logits by the root of its width; as other programs
// that run these files, this one does not: the order of tokens is the same.
var t5 = Arch{
	Name: "t5",
	config: func(k *keys) {
		t5Keys(k)
		for il, l := range k.c.Layers { // whose keys and values have the same place, and the decoder's the same sizes
			if l != k.c.Layers[0] {
				k.fail("attention.head_count", "layer %d has other sizes than layer 0, want the same in all", il)
			}
		}
		k.c.Encoder = k.c.Layers
		n := k.intOr("decoder_block_count", len(k.c.Layers), 1, maxLayer)
		k.c.Layers = slices.Repeat(k.c.Encoder[:1], n)
		start := "decoder_start_token_id"
		if !k.has(start) { // the token for padding, which is the first
			return
		}
		k.c.Start = int32(k.int(start, 0, math.MaxInt32))
	},
	build: func(b *builder) {
		b.begin()
		b.encoder("enc.", func(l layer) { t5Sublayers(l) })
		b.decoder("dec.", "enc.output_norm", func(l layer) { t5Sublayers(l, l.crossAttention) })
		b.end("dec.output_norm")
	},
}

// t5Keys reads the sizes that encoder and decoder have in common.
func t5Keys(k *keys) {
	k.rms()
	k.heads()
	k.feedForward()
	k.c.NBucket = k.int("attention.relative_buckets_count", 4, maxHead)
	for il := range k.c.Layers {
		k.c.Layers[il].AttnScale = 1
	}
}

// t5Sublayers is a layer of T5, with what comes between its sublayers.
func t5Sublayers(l layer, between ...func() sublayer) {
	l.residual("attn_norm", l.attention(attention{out: "attn_o"}))
	for _, h := range between {
		l.residual("cross_attn_norm", h())
	}
	ff := feedForward{fn: kernel.GELU}
	if !l.has("ffn_gate.weight") {
		ff = feedForward{fn: kernel.ReLU, plain: true}
	}
	l.residual("ffn_norm", l.feedForward(ff))
}
