package convert

var glm4 = Family{
	Arch:  "glm4",
	Names: "Glm4ForCausalLM",
	Rules: Rules{
		{"post_self_attn_layernorm", "post_attention_norm", nil},
		{"post_mlp_layernorm", "post_ffw_norm", nil},
		{"mlp.gate_up_proj", "ffn_up", nil},
	}.And(ends, attention, dense),
	Keys:  func(k *Keys) { rotating(k, 0.5) },
	Vocab: glmVocab,
}
