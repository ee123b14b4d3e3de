package projector

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var hunyuanVL = lang.Family{
	Arch:  arch,
	Names: "HunYuanVLForConditionalGeneration",
	Rules: lang.Rules{
		{"vit.embeddings.patch_embedding", "v.patch_embd", nil},
		{"vit.embeddings.position_embedding.weight", "v.position_embd.weight", afterFirst},
		{"vit.perceive.before_rms", "mm.pre_norm", nil},
		{"vit.perceive.proj.#", "mm.#", nil},
		{"vit.perceive.mlp", "mm.model.fc", nil},
		{"vit.perceive.after_rms", "mm.post_norm", nil},
		{"vit.perceive.image_newline", "v.image_newline", nil},
		{"vit.perceive.image_sep", "v.view_seperator", nil}, // so called in files
		{"vit.perceive.image_begin", "mm.image_begin", nil},
		{"vit.perceive.image_end", "mm.image_end", nil},
	}.And(within("vit.layers.#.", "v.blk.#.", lang.Rules{
		{"input_layernorm", "ln1", nil},
		{"post_attention_layernorm", "ln2", nil},
		{"self_attn.o_proj", "attn_out", nil},
		{"mlp.dense_h_to_4h", "ffn_up", nil},
		{"mlp.dense_4h_to_h", "ffn_down", nil},
	}.And(siglip))),
	Exact: "mm.0. mm.2.",
	Keys: func(k *lang.Keys) {
		s := encoder(k, "vision_config")
		if !s.Has("image_size") {
			s.Put("image_size", float64(s.CountOr("max_image_size", 2048)))
		}
		k.Take(s)
		v := vision(k, pixels{2048, 16})
		k.Set("projector_type", "hunyuanvl")
		gelu(k, v)
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("rms_norm_eps", 1e-5))
		k.N("vision.spatial_merge_size", v.CountOr("spatial_merge_size", 2))
		limits(k)
		k.Take(v)
	},
}

// afterFirst leaves out the first row: the position of a token for the whole picture, which is not used.
var afterFirst = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
	if len(v.Shape) != 2 || v.Shape[0] < 2 {
		return lang.View{}, fmt.Errorf("the shape %v, want a matrix of more than a row", v.Shape)
	}
	return v.Strided(v.Shape[1], lang.Dim{N: v.Shape[0] - 1, Stride: v.Shape[1]}, lang.Dim{N: v.Shape[1], Stride: 1}), nil
})
