package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// t5 is T5 and its kin (FLAN-T5, mT5, MADLAD): an encoder as that of t5encoder, and a decoder that attends to its
// result between the sublayers of such layers. The first T5 has ReLU without a gate, those behind it GELU with one.
// Where the embedding is the output matrix too, logits are divided by the root of its width, if the file says so: those
// of llama.cpp's converter do not, and the order of tokens is the same.
var t5 = Arch{
	Name: "t5",
	config: func(k *Keys) {
		t5Keys(k)
		k.DecoderLayers()
		k.Config.LogitScale = float32(k.FloatOr("quern.logit_scale", 1, 1e-6, 1e6))
		k.Answers()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Encoder("enc.", func(l Layer) { t5Sublayers(l) })
		b.Decoder("dec.", "enc.output_norm", func(l Layer) { t5Sublayers(l, l.CrossAttention) })
		b.End("dec.output_norm")
	},
}

// t5Keys reads the sizes that encoder and decoder have in common.
func t5Keys(k *Keys) {
	k.RMSNorm()
	k.Heads()
	k.FeedForward()
	k.Config.NBucket = k.Int("attention.relative_buckets_count", 4, MaxHead)
	for il := range k.Config.Layers {
		k.Config.Layers[il].AttnScale = 1
	}
}

// t5Sublayers is a layer of T5, with what comes between its sublayers.
func t5Sublayers(l Layer, between ...func() Sublayer) {
	l.Residual("attn_norm", l.Attention(Attention{Out: "attn_o"}))
	for _, h := range between {
		l.Residual("cross_attn_norm", h())
	}
	ff := FeedForward{Fn: kernel.GELU}
	if !l.Has("ffn_gate.weight") {
		ff = FeedForward{Fn: kernel.ReLU, Ungated: true}
	}
	l.Residual("ffn_norm", l.FeedForward(ff))
}
