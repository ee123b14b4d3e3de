package projector

import (
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var minicpmv = lang.Family{
	Arch:  arch,
	Names: "MiniCPMV4_6ForConditionalGeneration",
	Rules: lang.Rules{
		{"merger.mlp.pre_norm", "mm.input_norm", nil},
		{"merger.mlp.linear_1", "mm.up", nil},
		{"merger.mlp.linear_2", "mm.down", nil},
		{"vision_tower.vit_merger.layer_norm1", "v.vit_merger.ln1", nil},
		{"vision_tower.vit_merger.pre_norm", "v.vit_merger.ds_ln", nil},
		{"vision_tower.vit_merger.linear_1", "v.vit_merger.ds_ffn_up", nil},
		{"vision_tower.vit_merger.linear_2", "v.vit_merger.ds_ffn_down", nil},
	}.And(within("vision_tower.vit_merger.", "v.vit_merger.", siglip), vit),
	Rename: func(_ *hf.Config, name string) string {
		return strings.Replace(plain(name), "merger.mlp.0.", "merger.mlp.", 1)
	},
	Keys: func(k *lang.Keys) {
		p := processor(k)
		if mode := p.Text("downsample_mode"); mode != "" {
			p.Want("downsample_mode", "16x")
		}
		size := p.CountOr("scale_resolution", 0)
		k.Take(p)
		v := vision(k, pixels{980, 14})
		if size > 0 {
			k.N("vision.image_size", size) // of a slice
		}
		k.Set("projector_type", "minicpmv4_6")
		k.N("vision.projector.scale_factor", 4)
		k.Set("vision.wa_layer_indexes", []int32{int32(k.CountOr("insert_layer_id", v.CountOr("insert_layer_id", 6)))})
		gelu(k, v)
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-6))
		k.Take(v)
	},
}
