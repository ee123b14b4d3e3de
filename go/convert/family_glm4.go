package convert

var glm4 = family{
	arch:  "glm4",
	names: "Glm4ForCausalLM",
	rules: rules{
		{"post_self_attn_layernorm", "post_attention_norm", nil},
		{"post_mlp_layernorm", "post_ffw_norm", nil},
		{"mlp.gate_up_proj", "ffn_up", nil},
	}.And(ends, attention, dense),
	keys:  func(k *keys) { rotating(k, 0.5) },
	vocab: glmVocab,
}
