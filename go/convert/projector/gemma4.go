package projector

import (
	"fmt"
	"math"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
)

// gemma4Vision is the encoder of pictures.
var gemma4Vision = lang.Rules{
	{"vision_tower.patch_embedder.input_proj.weight", "v.patch_embd.weight", colours},
	{"vision_tower.patch_embedder.position_embedding_table", "v.position_embd.weight", nil},
	{"vision_tower.std_bias", "v.std_bias", nil},
	{"vision_tower.std_scale", "v.std_scale", nil},
	{"embed_vision.embedding_projection", "mm.input_projection", nil},
}.And(within("vision_tower.encoder.layers.#.", "v.blk.#.", lang.Rules{
	{"input_layernorm", "ln1", nil},
	{"post_attention_layernorm", "attn_post_norm", nil},
	{"pre_feedforward_layernorm", "ln2", nil},
	{"post_feedforward_layernorm", "ffn_post_norm", nil},
	{"self_attn.q_norm", "attn_q_norm", nil},
	{"self_attn.k_norm", "attn_k_norm", nil},
	{"layer_scalar", "out_scale.weight", nil},
}.And(clipped(lang.Rules{
	{"self_attn.q_proj", "attn_q", nil},
	{"self_attn.k_proj", "attn_k", nil},
	{"self_attn.v_proj", "attn_v", nil},
	{"self_attn.o_proj", "attn_out", nil},
}.And(gated)))))

// gemma4Audio is the encoder of sounds.
var gemma4Audio = lang.Rules{
	{"audio_tower.subsample_conv_projection.layer0.conv", "a.conv1d.0", nil},
	{"audio_tower.subsample_conv_projection.layer0.norm", "a.conv1d.0.norm", nil},
	{"audio_tower.subsample_conv_projection.layer1.conv", "a.conv1d.1", nil},
	{"audio_tower.subsample_conv_projection.layer1.norm", "a.conv1d.1.norm", nil},
	{"audio_tower.subsample_conv_projection.input_proj_linear", "a.input_projection", nil},
	{"audio_tower.output_proj", "a.pre_encode.out", nil},
	{"embed_audio.embedding_projection", "mm.a.input_projection", nil},
}.And(within("audio_tower.layers.#.", "a.blk.#.", lang.Rules{
	{"feed_forward1.pre_layer_norm", "ffn_norm", nil},
	{"feed_forward1.post_layer_norm", "ffn_post_norm", nil},
	{"feed_forward2.pre_layer_norm", "ffn_norm_1", nil},
	{"feed_forward2.post_layer_norm", "ffn_post_norm_1", nil},
	{"norm_pre_attn", "attn_pre_norm", nil},
	{"norm_post_attn", "attn_post_norm", nil},
	{"norm_out", "ln2", nil},
	{"self_attn.per_dim_scale", "per_dim_scale.weight", softplus},
	{"self_attn.relative_k_proj", "attn_k_rel", nil},
	{"lconv1d.pre_layer_norm", "conv_norm", nil},
	{"lconv1d.conv_norm", "norm_conv", nil},
	{"lconv1d.depthwise_conv1d", "conv_dw", lang.Squeeze},
}.And(clipped(lang.Rules{
	{"feed_forward1.ffw_layer_1", "ffn_up", nil},
	{"feed_forward1.ffw_layer_2", "ffn_down", nil},
	{"feed_forward2.ffw_layer_1", "ffn_up_1", nil},
	{"feed_forward2.ffw_layer_2", "ffn_down_1", nil},
	{"self_attn.q_proj", "attn_q", nil},
	{"self_attn.k_proj", "attn_k", nil},
	{"self_attn.v_proj", "attn_v", nil},
	{"self_attn.post", "attn_out", nil},
	{"lconv1d.linear_start", "conv_pw1", nil},
	{"lconv1d.linear_end", "conv_pw2", nil},
}))))

var gemma4 = lang.Family{
	Arch:   arch,
	Names:  "Gemma4ForConditionalGeneration",
	Rules:  gemma4Vision.And(gemma4Audio),
	Rename: unwrapped,
	Types:  lang.Types{{"a.conv1d.", gguf.F32}, {"a.input_projection.", gguf.F32}, {"a.blk.#.conv_dw.", gguf.F32}},
	Keys: func(k *lang.Keys) {
		v := vision(k, pixels{224, 16})
		k.N("vision.image_size", 224) // pictures of any size
		k.Set("vision.projector_type", "gemma4v")
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-6))
		k.Take(v)
		if part(k.Config, "audio_config") == nil {
			return
		}
		a := audio(k)
		k.N("audio.feed_forward_length", 4*a.Count("hidden_size"))
		k.Set("audio.projector_type", "gemma4a")
		k.N("audio.num_mel_bins", a.CountOr("input_feat_size", 128))
		k.F("audio.attention.layer_norm_epsilon", a.NumberOr("layer_norm_eps", 1e-6))
		k.Take(a)
	},
}

// clipped returns rules of products whose inputs and outputs are kept within limits, each a number beside the matrix.
func clipped(rules lang.Rules) lang.Rules {
	all := rules
	for _, r := range rules {
		for _, end := range []string{".input_min", ".input_max", ".output_min", ".output_max"} {
			all = append(all[:len(all):len(all)], lang.Rule{From: r.From + end, To: r.To + end})
		}
	}
	return all
}

// unwrapped returns the name of a matrix that is part of a module which limits its product.
func unwrapped(_ *hf.Config, name string) string {
	name = plain(name)
	if stem, ok := strings.CutSuffix(name, ".linear.weight"); ok {
		return stem + ".weight"
	}
	return name
}

// colours gives patches that have the colours of each pixel side by side the shape of others, a picture for each colour.
var colours = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
	if len(v.Shape) != 2 {
		return lang.View{}, fmt.Errorf("the shape %v, want a matrix", v.Shape)
	}
	n, side := v.Shape[0], uint64(math.Sqrt(float64(v.Shape[1]/3)))
	if v.Shape[1] != 3*side*side || side == 0 {
		return lang.View{}, fmt.Errorf("the shape %v, want square patches of 3 colours", v.Shape)
	}
	return v.Strided(0, lang.Dim{N: n, Stride: 3 * side * side}, lang.Dim{N: 3, Stride: 1},
		lang.Dim{N: side, Stride: 3 * side}, lang.Dim{N: side, Stride: 3}), nil
})

// softplus computes log(1 + exp(x)).
var softplus = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
	return v.Each(func(x float32) float32 {
		if x > 20 {
			return x
		}
		return float32(math.Log1p(math.Exp(float64(x))))
	}), nil
})
