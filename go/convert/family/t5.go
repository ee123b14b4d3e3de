package family

import (
	"math"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/vocab"
)

var t5 = lang.Family{
	Arch:   "t5",
	Names:  "T5ForConditionalGeneration T5WithLMHeadModel MT5ForConditionalGeneration UMT5ForConditionalGeneration",
	Rules:  t5Ends.And(t5Halves("enc"), t5Halves("dec"), t5Cross),
	Keys:   func(k *lang.Keys) { t5Keys(k); t5DecoderKeys(k); t5Scale(k) },
	Rename: t5Name,
	Vocab:  t5Vocab,
	Alike:  t5Shared,
	Fixed:  t5Fixed,

	Activation: "gelu_new",
}

// t5Fixed is what has one value in all models of this kind.
var t5Fixed = lang.Fixed{{"relative_attention_max_distance", "128"}}

// t5Shared is the names of the embeddings, which checkpoints have once or several times.
const t5Shared = "shared.weight encoder.embed_tokens.weight decoder.embed_tokens.weight"

var t5Ends = lang.Rules{
	{"shared", "token_embd", nil},
	{"encoder.embed_tokens", "token_embd", nil},
	{"decoder.embed_tokens", "token_embd", nil},
	{"encoder.final_layer_norm", "enc.output_norm", nil},
	{"decoder.final_layer_norm", "dec.output_norm", nil},
	{"lm_head", "output", nil},
}

// t5Halves is the layers of the encoder or the decoder, with the names that t5Name gives them.
func t5Halves(side string) lang.Rules {
	blk := side + ".blk.#."
	return lang.Rules{
		{side + ".self.SelfAttention.q", blk + "attn_q", nil},
		{side + ".self.SelfAttention.k", blk + "attn_k", nil},
		{side + ".self.SelfAttention.v", blk + "attn_v", nil},
		{side + ".self.SelfAttention.o", blk + "attn_o", nil},
		{side + ".self.SelfAttention.relative_attention_bias", blk + "attn_rel_b", nil},
		{side + ".self.layer_norm", blk + "attn_norm", nil},
		{side + ".ff.DenseReluDense.wi", blk + "ffn_up", nil},
		{side + ".ff.DenseReluDense.wi_0", blk + "ffn_gate", nil},
		{side + ".ff.DenseReluDense.wi_1", blk + "ffn_up", nil},
		{side + ".ff.DenseReluDense.wo", blk + "ffn_down", nil},
		{side + ".ff.layer_norm", blk + "ffn_norm", nil},
	}
}

// t5Cross is the cross-attention of the decoder.
var t5Cross = lang.Rules{
	{"dec.cross.EncDecAttention.q", "dec.blk.#.cross_attn_q", nil},
	{"dec.cross.EncDecAttention.k", "dec.blk.#.cross_attn_k", nil},
	{"dec.cross.EncDecAttention.v", "dec.blk.#.cross_attn_v", nil},
	{"dec.cross.EncDecAttention.o", "dec.blk.#.cross_attn_o", nil},
	{"dec.cross.EncDecAttention.relative_attention_bias", "", nil}, // the first T5 has this, and does not use it
	{"dec.cross.layer_norm", "dec.blk.#.cross_attn_norm", nil},
}

// t5Name gives names to the parts of a layer, which checkpoints number.
func t5Name(_ *hf.Config, name string) string {
	side, rest, ok := strings.Cut(name, ".block.")
	number, part, inLayer := strings.Cut(rest, ".layer.")
	which, tail, _ := strings.Cut(part, ".")
	half := map[string]string{
		"encoder0": "enc.self", "encoder1": "enc.ff", "decoder0": "dec.self", "decoder1": "dec.cross", "decoder2": "dec.ff",
	}[side+which]
	if !ok || !inLayer || half == "" {
		return name
	}
	return "block." + number + "." + half + "." + tail
}

// t5Keys sets the sizes of encoders and decoders.
func t5Keys(k *lang.Keys) {
	k.N("context_length", k.CountOr("n_positions", 512))
	k.N("feed_forward_length", k.Count("d_ff"))
	k.N("attention.head_count", k.Count("num_heads"))
	k.N("attention.key_length", k.Count("d_kv"))
	k.N("attention.value_length", k.Count("d_kv"))
	k.N("attention.relative_buckets_count", k.Count("relative_attention_num_buckets"))
	k.F("attention.layer_norm_rms_epsilon", k.NumberOr("layer_norm_epsilon", 1e-6))
	k.Drop("attention.layer_norm_epsilon", "attention.head_count_kv")
}

// t5DecoderKeys sets what only models with a decoder have.
func t5DecoderKeys(k *lang.Keys) {
	k.N("decoder_start_token_id", k.CountOr("decoder_start_token_id", 0))
	k.N("decoder_block_count", k.CountOr("num_decoder_layers", k.Layers()))
}

// t5Vocab sets which tokens these models expect around a text.
func t5Vocab(_ *hf.Config, v *vocab.Vocabulary) {
	v.SetAdd("bos", false)
	v.SetAdd("eos", true)
}

// t5Scale sets what logits are multiplied by, which is said by whether the output matrix is the embedding. MT5 has no
// scale.
func t5Scale(k *lang.Keys) {
	defer k.Remove("tie_word_embeddings") // an output matrix that is there is used, whatever the configuration says
	if k.Text("model_type") != "mt5" && k.FlagOr("scale_decoder_outputs", k.FlagOr("tie_word_embeddings", true)) {
		k.F("quern.logit_scale", 1/math.Sqrt(float64(k.Count("d_model"))))
	}
}
