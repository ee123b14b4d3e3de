package projector

import "github.com/quern-llm/quern/go/convert/lang"

var dotsOCR = lang.Family{
	Arch:  arch,
	Names: "DotsOCRForCausalLM",
	Rules: lang.Rules{
		{"vision_tower.patch_embed.patchifier.proj", "v.patch_embd", nil},
		{"vision_tower.patch_embed.patchifier.norm", "v.pre_ln", nil},
		{"vision_tower.post_trunk_norm", "mm.post_norm", nil},
		{"vision_tower.merger.ln_q", "mm.input_norm", nil},
		{"vision_tower.merger.mlp.#", "mm.#", nil},
	}.And(within("vision_tower.blocks.#.", "v.blk.#.", lang.Rules{
		{"norm1", "ln1", nil},
		{"norm2", "ln2", nil},
		{"attn.qkv", "attn_qkv", nil},
		{"attn.proj", "attn_out", nil},
		{"mlp.fc1", "ffn_gate", nil},
		{"mlp.fc2", "ffn_down", nil},
		{"mlp.fc3", "ffn_up", nil},
	})),
	Keys: func(k *lang.Keys) {
		v := vision(k, pixels{1, 14})
		k.N("vision.image_size", 0) // pictures of any size
		k.Set("projector_type", "dots_ocr")
		limits(k)
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("rms_norm_eps", 1e-5))
		k.N("vision.projector.scale_factor", v.CountOr("spatial_merge_size", 2))
		k.B("use_silu", true)
		k.Take(v)
	},
}

// limits sets between which numbers of pixels pictures are.
func limits(k *lang.Keys) {
	p := processor(k)
	k.N("vision.image_min_pixels", p.Count("min_pixels"))
	k.N("vision.image_max_pixels", p.Count("max_pixels"))
	k.Take(p)
}
