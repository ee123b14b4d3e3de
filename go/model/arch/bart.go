package arch

import (
	. "github.com/quern-llm/quern/go/model/nn"
)

// bart is BART (Lewis et al. 2019): an encoder and a decoder as the first Transformer had them, with norms of the
// residual after each sublayer, learned positions, biases everywhere, and a norm of the embeddings.
var bart = Arch{
	Name:   "bart",
	config: bartConfig,
	build: func(b *Builder) {
		b.Begin()
		b.Encoder("enc.", func(l Layer) { bartLayer(l, true) })
		b.Decoder("dec.", "", func(l Layer) { bartLayer(l, true, l.CrossAttention) })
		b.End("")
	},
}

// marian is Marian's translators (OPUS-MT): bart without a norm of the embeddings.
var marian = Arch{Name: "marian", config: bart.config, build: bart.build}

// mbart is mBART, which is bart with norms before the sublayers, and one at the end of each stack. The token of a
// language is forced at the beginning of an answer.
var mbart = Arch{
	Name:   "mbart",
	config: bartConfig,
	build: func(b *Builder) {
		b.Begin()
		b.Encoder("enc.", func(l Layer) { bartLayer(l, false) })
		b.Decoder("dec.", "enc.output_norm", func(l Layer) { bartLayer(l, false, l.CrossAttention) })
		b.End("dec.output_norm")
	},
}

// pegasus is Pegasus: mbart without a norm of the embeddings.
var pegasus = Arch{Name: "pegasus", config: mbart.config, build: mbart.build}

func bartConfig(k *Keys) {
	k.LayerNorm()
	k.Heads()
	k.FeedForward()
	k.DecoderLayers()
	k.Answers()
	k.Sides()
	k.Config.EmbedScale = float32(k.FloatOr("embedding_scale", 1, 1e-6, 1e6))
}

// bartLayer is a layer with what comes between its sublayers. Norms are before the sublayers, or of the residual after
// them.
func bartLayer(l Layer, after bool, between ...func() Sublayer) {
	if l.Index == 0 {
		l.Begun()
	}
	add := func(norm string, h Sublayer) {
		if after {
			l.Residual("", h)
			l.Normalise(norm)
			return
		}
		l.Residual(norm, h)
	}
	add("attn_norm", l.Attention(Attention{Out: "attn_o"}))
	for _, h := range between {
		add("cross_attn_norm", h())
	}
	add("ffn_norm", plainGELU(l))
}
