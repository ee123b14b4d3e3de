package projector

import (
	"math"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// step3vl is a transformer of OpenAI's CLIP with scales of layers, and two convolutions behind.
var step3vl = lang.Family{
	Arch:  arch,
	Names: "StepVLForConditionalGeneration Step3p7ForConditionalGeneration",
	Rules: lang.Rules{
		{"vision_tower.conv1", "v.patch_embd", nil},
		{"vision_tower.positional_embedding", "v.position_embd.weight", nil},
		{"vision_tower.ln_pre", "v.pre_ln", nil},
		{"vision_tower.ln_post", "v.post_ln", nil},
		{"vision_tower.vit_downsampler1", "mm.0", nil},
		{"vision_tower.vit_downsampler2", "mm.1", nil},
		{"vit_large_projector", "mm.model.fc", nil},
	}.And(within("vision_tower.transformer.resblocks.#.", "v.blk.#.", lang.Rules{
		{"ln_1", "ln1", nil},
		{"ln_2", "ln2", nil},
		{"ls_1.gamma", "ls1.weight", nil},
		{"ls_2.gamma", "ls2.weight", nil},
		{"attn.in_proj_weight", "attn_qkv.weight", nil},
		{"attn.in_proj_bias", "attn_qkv.bias", nil},
		{"attn.out_proj", "attn_out", nil},
		{"mlp.c_fc", "ffn_up", nil},
		{"mlp.c_proj", "ffn_down", nil},
	})),
	Exact: "mm.0. mm.1.",
	Rename: func(_ *hf.Config, name string) string {
		return strings.Replace(plain(name), "vision_tower.vit_large_projector.", "vit_large_projector.", 1)
	},
	Keys: func(k *lang.Keys) {
		of := encoder(k, "vision_config")
		inner := float64(of.Count(widthNames)) * of.NumberOr("mlp_ratio", 8960./1536)
		k.Put("vision_config", with(k.Object("vision_config"), map[string]float64{"intermediate_size": math.Round(inner)}))
		k.Take(of)
		v := visionAs(k, pixels{728, 14}, clip)
		v.Want("hidden_act", "quick_gelu")
		k.Set("projector_type", "step3vl")
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-5))
		k.Want("understand_projector_stride", "2")
		k.N("vision.projector.scale_factor", 4)
		k.N("vision.preproc_image_size", 3024) // the longest side that its processor leaves
		k.Take(v)
	},
}
