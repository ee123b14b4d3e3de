package projector

import (
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// cogvlm is EVA's encoder, and a gated feed-forward behind a product. What sees in the layers of the text model is part of that.
var cogvlm = lang.Family{
	Arch:  arch,
	Names: "CogVLMForCausalLM",
	Rules: lang.Rules{
		{"vision.patch_embedding.cls_embedding", "v.class_embd", nil},
		{"vision.patch_embedding.proj", "v.patch_embd", nil},
		{"vision.patch_embedding.position_embedding", "v.position_embd", nil},
		{"vision.linear_proj.linear_proj", "mm.model.fc", nil},
		{"vision.linear_proj.norm1", "mm.post_fc_norm", nil},
		{"vision.linear_proj.dense_h_to_4h", "mm.up", nil},
		{"vision.linear_proj.gate_proj", "mm.gate", nil},
		{"vision.linear_proj.dense_4h_to_h", "mm.down", nil},
		{"vision.boi", "v.boi", nil},
		{"vision.eoi", "v.eoi", nil},
	}.And(within("vision.transformer.layers.#.", "v.blk.#.", lang.Rules{
		{"input_layernorm", "ln1", nil},
		{"post_attention_layernorm", "ln2", nil},
		{"attention.query_key_value", "attn_qkv", nil},
		{"attention.dense", "attn_out", nil},
		{"mlp.fc1", "ffn_up", nil},
		{"mlp.fc2", "ffn_down", nil},
	})),
	Rename: func(_ *hf.Config, name string) string {
		name = strings.TrimPrefix(name, "model.")
		if !strings.HasPrefix(name, "vision.") {
			return ""
		}
		return name
	},
	Keys: func(k *lang.Keys) {
		v := visionAs(k, pixels{490, 14}, clip)
		k.Set("projector_type", "cogvlm")
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-6))
		k.Take(v)
	},
}
