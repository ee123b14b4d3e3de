package projector

import (
	"github.com/quern-llm/quern/go/convert/lang"
)

var internvl = lang.Family{
	Arch:  arch,
	Names: "InternVLChatModel InternVLForConditionalGeneration InternS1ForConditionalGeneration",
	Rules: lang.Rules{
		{"vision_tower.embeddings.class_embedding", "v.class_embd", nil},
		{"vision_tower.embeddings.cls_token", "v.class_embd", nil},
		{"vision_tower.embeddings.patch_embedding", "v.patch_embd", nil},
		{"vision_tower.embeddings.patch_embeddings.projection", "v.patch_embd", nil},
		{"vision_tower.embeddings.position_embedding", "v.position_embd.weight", nil},
		{"vision_tower.embeddings.position_embeddings", "v.position_embd.weight", nil},
		{"mlp1.#", "mm.model.mlp.#", nil},
		{"multi_modal_projector.layer_norm", "mm.model.mlp.0", nil},
		{"multi_modal_projector.linear_1", "mm.model.mlp.1", nil},
		{"multi_modal_projector.linear_2", "mm.model.mlp.3", nil},
		{"vision_tower.encoder.layers.#.attn.qkv.weight",
			"v.blk.#.attn_q.weight v.blk.#.attn_k.weight v.blk.#.attn_v.weight", thirds},
		{"vision_tower.encoder.layers.#.attn.qkv.bias",
			"v.blk.#.attn_q.bias v.blk.#.attn_k.bias v.blk.#.attn_v.bias", thirds},
	}.And(within("vision_tower.encoder.layers.#.", "v.blk.#.", lang.Rules{
		{"norm1", "ln1", nil},
		{"norm2", "ln2", nil},
		{"attn.q_norm", "attn_q_norm", nil},
		{"attn.k_norm", "attn_k_norm", nil},
		{"attn.proj", "attn_out", nil},
		{"mlp.fc1", "ffn_up", nil},
		{"mlp.fc2", "ffn_down", nil},
		{"ls1", "ls1.weight", nil},
		{"ls2", "ls2.weight", nil},
	}), within("vision_tower.encoder.layer.#.", "v.blk.#.", lang.Rules{
		{"layernorm_before", "ln1", nil},
		{"layernorm_after", "ln2", nil},
		{"attention.q_proj", "attn_q", nil},
		{"attention.k_proj", "attn_k", nil},
		{"attention.v_proj", "attn_v", nil},
		{"attention.q_norm", "attn_q_norm", nil},
		{"attention.k_norm", "attn_k_norm", nil},
		{"attention.projection_layer", "attn_out", nil},
		{"mlp.fc1", "ffn_up", nil},
		{"mlp.fc2", "ffn_down", nil},
		{"lambda_1", "ls1.weight", nil},
		{"lambda_2", "ls2.weight", nil},
	})),
	Keys: func(k *lang.Keys) {
		v := vision(k, pixels{448, 14})
		k.Set("projector_type", "internvl")
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-6))
		gelu(k, v)
		k.N("vision.projector.scale_factor", shuffled(k.Config, "downsample_ratio"))
		if n := k.CountOr("min_dynamic_patch", 0); n > 0 {
			k.N("vision.preproc_min_tiles", n)
		}
		if n := k.CountOr("max_dynamic_patch", 0); n > 0 {
			k.N("vision.preproc_max_tiles", n)
		}
		k.Take(v)
	},
}
