package projector

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var llama4 = lang.Family{
	Arch:  arch,
	Names: "Llama4ForConditionalGeneration",
	Rules: lang.Rules{
		{"vision_tower.class_embedding", "v.class_embd", nil},
		{"vision_tower.patch_embedding.linear", "v.patch_embd", nil},
		{"vision_tower.positional_embedding_vlm", "v.position_embd.weight", nil},
		{"vision_tower.layernorm_pre", "v.pre_ln", nil},
		{"vision_tower.layernorm_post", "v.post_ln", nil},
		{"vision_tower.vision_adapter.mlp.fc1", "mm.model.mlp.1", nil},
		{"vision_tower.vision_adapter.mlp.fc2", "mm.model.mlp.2", nil},
		{"multi_modal_projector.linear_1", "mm.model.fc", nil},
	}.And(within("vision_tower.model.layers.#.", "v.blk.#.", lang.Rules{
		{"input_layernorm", "ln1", nil},
		{"post_attention_layernorm", "ln2", nil},
		{"self_attn.o_proj", "attn_out", nil},
	}.And(siglip))),
	Keys: func(k *lang.Keys) {
		v := vision(k, pixels{336, 14})
		k.Set("projector_type", "llama4")
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("norm_eps", 1e-5))
		k.N("vision.projector.scale_factor", shuffled(v, "pixel_shuffle_ratio"))
		v.Want("hidden_act", "gelu")
		k.B("use_gelu", true)
		k.Take(v)
	},
}

// shuffled returns how many patches in a row become one, of the share of them that is left.
func shuffled(c *hf.Config, name string) int {
	share := c.NumberOr(name, 0.5)
	if share <= 0 || share > 1 {
		c.Fail("%s is %v, want a share above 0, and at most 1", name, share)
		return 0
	}
	return int(1 / share)
}
