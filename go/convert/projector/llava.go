package projector

import (
	"github.com/quern-llm/quern/go/convert/lang"
)

// llava is LLaVA 1.5 and 1.6 as transformers has them. Programs leave out the last layer of the encoder, since the one
// before is what the projector was trained on; the file has it.
var llava = lang.Family{
	Arch:  arch,
	Names: "LlavaNextForConditionalGeneration",
	Rules: lang.Rules{
		{"vision_tower.post_layernorm", "", nil}, // behind the last layer
		{"multi_modal_projector.linear_1", "mm.0", nil},
		{"multi_modal_projector.linear_2", "mm.2", nil},
		{"image_newline", "v.image_newline", nil},
	}.And(vit),
	Keys: func(k *lang.Keys) {
		v := vision(k, pixels{336, 14})
		k.Set("projector_type", "mlp")
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-5))
		if v.Text("hidden_act") != "quick_gelu" { // which is meant where a file says nothing
			gelu(k, v)
		}
		k.Want("vision_feature_layer", "-2")
		k.Want("vision_feature_select_strategy", "default")
		k.Want("projector_hidden_act", "gelu")
		var sizes []int32
		for _, pair := range k.List("image_grid_pinpoints") {
			list, _ := pair.([]any)
			for _, n := range k.Integers("image_grid_pinpoints", list) {
				sizes = append(sizes, int32(n))
			}
		}
		if len(sizes) > 0 {
			k.Set("vision.image_grid_pinpoints", sizes)
		}
		k.Take(v)
	},
}
