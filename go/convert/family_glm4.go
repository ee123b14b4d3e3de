package convert

import "slices"

var glm4 = family{
	arch:  "glm4",
	names: "Glm4ForCausalLM",
	rules: with(slices.Concat(ends, attention, dense),
		rule{"post_self_attn_layernorm", "post_attention_norm", nil},
		rule{"post_mlp_layernorm", "post_ffw_norm", nil},
		rule{"mlp.gate_up_proj", "ffn_up", nil}),
	keys:  func(k *keys) { rotating(k, 0.5) },
	vocab: glmVocab,
}
