package projector

import (
	"github.com/quern-llm/quern/go/convert/lang"
)

var lfm2 = lang.Family{
	Arch:  arch,
	Names: "Lfm2VlForConditionalGeneration",
	Rules: lang.Rules{
		{"vision_tower.embeddings.patch_embedding.weight", "v.patch_embd.weight", colours},
		{"multi_modal_projector.layer_norm", "mm.input_norm", nil},
		{"multi_modal_projector.linear_1", "mm.1", nil},
		{"multi_modal_projector.linear_2", "mm.2", nil},
	}.And(vit),
	Keys: func(k *lang.Keys) {
		v := vision(k, pixels{256, 16})
		k.N("vision.image_size", 256) // pictures of any size
		k.Set("projector_type", "lfm2")
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-6))
		k.N("vision.projector.scale_factor", k.CountOr("downsample_factor", 2))
		gelu(k, v)
		last, _ := k.Value("vision_feature_layer").(float64) // from the end: -1 is the last one
		if last < 0 {
			k.N("vision.block_count", max(layers(v)+int(last)+1, 0))
		}
		k.Take(v)
	},
}
