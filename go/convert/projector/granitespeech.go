package projector

import (
	"math"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
)

// graniteSpeech is a conformer, and queries that ask windows of its tokens. Convolutions stay F32.
var graniteSpeech = lang.Family{
	Arch:  arch,
	Names: "GraniteSpeechForConditionalGeneration GraniteSpeechPlusForConditionalGeneration",
	Rules: lang.Rules{
		{"encoder.input_linear", "a.input_projection", nil},
		{"encoder.out", "a.enc_ctc_out", nil},
		{"encoder.out_mid", "a.enc_ctc_out_mid", nil},
		{"projector.query", "a.proj_query", nil},
		{"projector.qformer.layernorm", "a.proj_norm", nil},
		{"projector.linear", "a.proj_linear", nil},
		batchNorm("encoder.layers.#.conv.batch_norm"),
		{"encoder.layers.#.attn.rel_pos_emb.weight", "a.blk.#.attn_rel_pos_emb", nil},
		{"encoder.layers.#.attn.to_kv.weight", "a.blk.#.attn_k.weight a.blk.#.attn_v.weight", lang.Halves},
	}.And(within("encoder.layers.#.", "a.blk.#.", lang.Rules{
		{"ff1.pre_norm", "ffn_norm", nil},
		{"ff1.up_proj", "ffn_up", nil},
		{"ff1.down_proj", "ffn_down", nil},
		{"ff2.pre_norm", "ffn_norm_1", nil},
		{"ff2.up_proj", "ffn_up_1", nil},
		{"ff2.down_proj", "ffn_down_1", nil},
		{"attn.pre_norm", "ln1", nil},
		{"attn.to_q", "attn_q", nil},
		{"attn.to_out", "attn_out", nil},
		{"conv.norm", "norm_conv", nil},
		{"conv.up_conv", "conv_pw1", lang.Squeeze},
		{"conv.depth_conv.conv", "conv_dw", lang.Squeeze},
		{"conv.down_conv", "conv_pw2", lang.Squeeze},
		{"post_norm", "ln2", nil},
	}), within("projector.qformer.encoder.layer.#.", "a.proj_blk.#.", qformer)),
	Types: lang.Types{{"a.blk.#.conv_", gguf.F32}},
	Keys: func(k *lang.Keys) {
		of := encoder(k, "encoder_config")
		width, n := of.Count("hidden_dim"), of.CountOr("feedforward_mult", 4)
		k.Put("audio_config", with(k.Object("encoder_config"), map[string]float64{
			"hidden_size": float64(width), "intermediate_size": float64(width) * float64(n),
		}))
		k.Take(of)
		a := audio(k)
		k.Set("projector_type", "granite_speech")
		k.N("audio.num_mel_bins", a.Count("input_dim"))
		k.F("audio.attention.layer_norm_epsilon", 1e-5)
		k.N("audio.chunk_size", a.Count("context_size"))
		k.N("audio.conv_kernel_size", a.Count("conv_kernel_size"))
		k.N("audio.max_pos_emb", a.Count("max_pos_emb"))
		k.N("audio.projector.window_size", k.Count("window_size"))
		k.N("audio.projector.downsample_rate", k.Count("downsample_rate"))
		q := k.Within("projector_config")
		k.N("audio.projector.head_count", q.Count("num_attention_heads"))
		if list := a.List("cat_hidden_layers"); len(list) > 0 {
			k.Set("audio.feature_layer", signed(k.Integers("cat_hidden_layers", list)))
			if have, want := q.Count("encoder_hidden_size"), width*(len(list)+1); have != want {
				q.Fail("encoder_hidden_size is %d, want %d columns of %d results", have, want, len(list)+1)
			}
		}
		k.Take(q)
		k.Take(a)
	},
}

// qformer is a layer of a Q-Former.
var qformer = lang.Rules{
	{"attention.attention.query", "self_attn_q", nil},
	{"attention.attention.key", "self_attn_k", nil},
	{"attention.attention.value", "self_attn_v", nil},
	{"attention.output.dense", "self_attn_out", nil},
	{"attention.output.LayerNorm", "self_attn_norm", nil},
	{"crossattention.attention.query", "cross_attn_q", nil},
	{"crossattention.attention.key", "cross_attn_k", nil},
	{"crossattention.attention.value", "cross_attn_v", nil},
	{"crossattention.output.dense", "cross_attn_out", nil},
	{"crossattention.output.LayerNorm", "cross_attn_norm", nil},
	{"intermediate_query.dense", "ffn_up", nil},
	{"output_query.dense", "ffn_down", nil},
	{"output_query.LayerNorm", "ffn_norm", nil},
}

// batchNorm returns the rule of a norm by the mean and variance of batches, which become part of its weights and biases.
func batchNorm(name string) lang.Rule {
	return lang.Rule{
		From: name + ".weight " + name + ".bias " + name + ".running_mean " + name + ".running_var",
		To:   "a.blk.#.conv_norm.weight a.blk.#.conv_norm.bias", Do: folded,
	}
}

// batchEps is what PyTorch adds to the variance of batches.
const batchEps = 1e-5

// folded makes factors and biases of weights, biases, means and variances, in F32 as PyTorch rounds each of them.
var folded lang.Op = func(_ *hf.Config, in []lang.View) ([]lang.View, error) {
	factor, err := zipped(in[0], in[3], func(w, v float32) float32 {
		return w / float32(math.Sqrt(float64(v+batchEps)))
	})
	if err != nil {
		return nil, err
	}
	shift, err := zipped(in[2], factor, func(mean, f float32) float32 { return mean * f })
	if err != nil {
		return nil, err
	}
	bias, err := zipped(in[1], shift, func(b, s float32) float32 { return b - s })
	return []lang.View{factor, bias}, err
}
