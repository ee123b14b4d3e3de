package projector

import "github.com/quern-llm/quern/go/convert/lang"

var glm4v = lang.Family{
	Arch:  arch,
	Names: "Glm4vForConditionalGeneration Glm4vMoeForConditionalGeneration GlmOcrForConditionalGeneration",
	Rules: lang.Rules{
		{"visual.patch_embed.proj.weight", "v.patch_embd.weight v.patch_embd.weight.1", frames},
		{"visual.patch_embed.proj.bias", "v.patch_embd.bias", nil},
		{"visual.embeddings.position_embedding", "v.position_embd", nil},
		{"visual.post_conv_layernorm", "v.norm_embd", nil},
		{"visual.post_layernorm", "v.post_ln", nil},
		{"visual.downsample", "mm.patch_merger", nil},
		{"visual.merger.proj", "mm.model.fc", nil},
		{"visual.merger.post_projection_norm", "mm.post_norm", nil},
		{"visual.merger.gate_proj", "mm.gate", nil},
		{"visual.merger.up_proj", "mm.up", nil},
		{"visual.merger.down_proj", "mm.down", nil},
	}.And(within("visual.blocks.#.", "v.blk.#.", lang.Rules{
		{"norm1", "ln1", nil},
		{"norm2", "ln2", nil},
		{"attn.qkv", "attn_qkv", nil},
		{"attn.proj", "attn_out", nil},
		{"attn.q_norm", "attn_q_norm", nil},
		{"attn.k_norm", "attn_k_norm", nil},
	}.And(gated))),
	Keys: func(k *lang.Keys) {
		v := vision(k, pixels{336, 14})
		k.Set("projector_type", "glm4v")
		if v.Text("hidden_act") == "gelu" {
			k.B("use_gelu", true)
		} else {
			v.Want("hidden_act", "silu")
			k.B("use_silu", true)
		}
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("rms_norm_eps", 1e-5))
		k.Take(v)
	},
}
