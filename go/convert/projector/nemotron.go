package projector

import (
	"fmt"
	"math"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// nemotron has RADIO's encoder of pictures, the ViT-Huge of which config.json says nothing, and in Nemotron Nano Omni that of
// Parakeet for sounds.
var nemotron = lang.Family{
	Arch:  arch,
	Names: "NemotronH_Nano_VL_V2 NemotronH_Nano_Omni_Reasoning_V3",
	Rules: lang.Rules{
		{"radio.patch_generator.embedder.weight", "v.patch_embd.weight", planes},
		{"radio.patch_generator.pos_embed", "v.position_embd.weight", shrunk},
		{"radio.patch_generator.cls_token.token", "v.class_embd", nil},
		{"mlp1.#", "mm.model.mlp.#", nil},
	}.And(within("radio.blocks.#.", "v.blk.#.", lang.Rules{
		{"norm1", "ln1", nil},
		{"norm2", "ln2", nil},
		{"attn.qkv", "attn_qkv", nil},
		{"attn.proj", "attn_out", nil},
		{"mlp.fc1", "ffn_up", nil},
		{"mlp.fc2", "ffn_down", nil},
	}), parakeet),
	Types: conformerTypes,
	Rename: func(_ *hf.Config, name string) string {
		if rest, ok := strings.CutPrefix(name, "vision_model.radio_model."); ok {
			rest, ok = strings.CutPrefix(rest, "model.")
			if !ok || strings.HasPrefix(rest, "patch_generator.video_embedder") {
				return "" // how colours are normalised, which the processor says too, and what only videos need
			}
			return "radio." + rest
		}
		return name
	},
	Keys: func(k *lang.Keys) {
		k.Put("vision_config", with(k.Object("vision_config"), vitSizes(1280, 5120, 32, 16, float64(imageSize(k.Config)), 16)))
		v := visionAs(k, pixels{512, 16}, imagenet)
		k.F("vision.attention.layer_norm_epsilon", 1e-6)
		k.B("use_gelu", true)
		k.N("vision.projector.scale_factor", shuffled(k.Config, "downsample_ratio"))
		k.Take(v)
		if k.Object("sound_config") == nil {
			k.Set("projector_type", "nemotron_v2_vl")
			return
		}
		k.Set("vision.projector_type", "nemotron_v2_vl")
		k.Set("audio.projector_type", "parakeet")
		k.Put("audio_config", k.Value("sound_config"))
		a := audio(k)
		k.N("audio.num_mel_bins", a.Count("num_mel_bins"))
		k.F("audio.attention.layer_norm_epsilon", 1e-5)
		k.N("audio.subsampling_factor", a.Count("subsampling_factor"))
		k.N("audio.conv_kernel_size", a.Count("conv_kernel_size"))
		k.Take(a)
	},
}

// parakeet is the encoder of sounds, with its front end.
var parakeet = lang.Rules{
	{"sound_encoder.encoder.feature_extractor.featurizer.fb", "a.mel_filters", nil},
	{"sound_encoder.encoder.feature_extractor.featurizer.window", "a.window", nil},
	{"sound_encoder.encoder.subsampling.layers.#.weight", "a.conv1d.#.weight", nil},
	{"sound_encoder.encoder.subsampling.layers.#.bias", "a.conv1d.#.bias", ofChannels},
	{"sound_encoder.encoder.subsampling.linear", "a.pre_encode.out", nil},
	{"sound_projection.norm", "mm.a.norm_pre", nil},
	{"sound_projection.linear1", "mm.a.mlp.1", nil},
	{"sound_projection.linear2", "mm.a.mlp.2", nil},
}.And(within("sound_encoder.encoder.layers.#.", "a.blk.#.", lang.Rules{
	{"self_attn.q_proj", "attn_q", nil},
	{"self_attn.k_proj", "attn_k", nil},
	{"self_attn.v_proj", "attn_v", nil},
	{"self_attn.o_proj", "attn_out", nil},
	{"self_attn.relative_k_proj", "linear_pos", nil},
	{"self_attn.bias_u", "pos_bias_u", nil},
	{"self_attn.bias_v", "pos_bias_v", nil},
	{"conv.depthwise_conv.weight", "conv_dw.weight", ofPlanes},
	{"conv.depthwise_conv.bias", "conv_dw.bias", nil},
	{"conv.pointwise_conv1.weight", "conv_pw1.weight", lang.Squeeze},
	{"conv.pointwise_conv1.bias", "conv_pw1.bias", ofChannels},
	{"conv.pointwise_conv2.weight", "conv_pw2.weight", lang.Squeeze},
	{"conv.pointwise_conv2.bias", "conv_pw2.bias", ofChannels},
	{"conv.norm", "conv_norm", nil},
	{"conv.norm.running_mean", "conv_norm_mean", nil},
	{"conv.norm.running_var", "conv_norm_var", nil},
}.And(fastConformer)))

// ofChannels gives biases the dimensions of a batch of planes.
var ofChannels = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) { return v.As(1, v.Elems(), 1, 1) })

// ofPlanes gives a convolution of each channel on its own the dimensions of one over planes.
var ofPlanes = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
	if len(v.Shape) != 3 || v.Shape[1] != 1 {
		return lang.View{}, fmt.Errorf("the shape %v, want taps for each channel", v.Shape)
	}
	return v.As(1, 1, v.Shape[0], v.Shape[2])
})

// imageSize returns the sides of the squares that pictures become.
func imageSize(c *hf.Config) int { return side(c, "force_image_size", 512) }

// planes gives patches that are rows of numbers, a colour after the other, the shape of pictures.
var planes = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
	if len(v.Shape) != 2 {
		return lang.View{}, fmt.Errorf("the shape %v, want a matrix", v.Shape)
	}
	n := uint64(math.Sqrt(float64(v.Shape[1] / 3)))
	return v.As(v.Shape[0], 3, n, n)
})

// shrunk interpolates the positions of a square of patches to those of the squares that pictures become, by lines between
// neighbours, the corners on each other.
var shrunk = lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
	of := c.Within("vision_config")
	to := uint64(imageSize(c) / side(of, "patch_size", 16))
	c.Take(of)
	if len(v.Shape) != 3 || v.Shape[0] != 1 || v.Shape[2] == 0 || to == 0 {
		return lang.View{}, fmt.Errorf("the shape %v, want positions of patches, for %d of them on a side", v.Shape, to)
	}
	from, width := uint64(math.Sqrt(float64(v.Shape[1]))), v.Shape[2]
	if from == 0 || from*from != v.Shape[1] {
		return lang.View{}, fmt.Errorf("the shape %v, want the positions of a square", v.Shape)
	}
	if from == to {
		return v, nil
	}
	step := float32(0)
	if to > 1 {
		step = float32(from-1) / float32(to-1)
	}
	at := func(i uint64) (low, high uint64, share float32) {
		x := step * float32(i)
		low = min(uint64(x), from-1)
		return low, min(low+1, from-1), x - float32(low)
	}
	out := lang.View{Shape: []uint64{1, to * to, width}}
	out.Read = func(dst []float32, begin uint64) error {
		corners := make([]float32, 4*min(width, uint64(len(dst))))
		for len(dst) > 0 {
			row, first := begin/width, begin%width
			n := min(uint64(len(dst)), width-first)
			top, bottom, down := at(row / to)
			left, right, across := at(row % to)
			for i, place := range [4]uint64{top*from + left, top*from + right, bottom*from + left, bottom*from + right} {
				if err := v.Read(corners[uint64(i)*n:][:n], place*width+first); err != nil {
					return err
				}
			}
			for i := range n {
				upper := (1-across)*corners[i] + across*corners[n+i]
				lower := (1-across)*corners[2*n+i] + across*corners[3*n+i]
				dst[i] = (1-down)*upper + down*lower
			}
			dst, begin = dst[n:], begin+n
		}
		return nil
	}
	return out, nil
})
