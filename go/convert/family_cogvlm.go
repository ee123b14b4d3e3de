package convert

var cogvlm = family{
	arch:  "cogvlm",
	names: "CogVLMForCausalLM",
	rules: rules{
		{"self_attn.language_expert_query_key_value", "attn_qkv", nil},
		{"self_attn.language_expert_dense", "attn_output", nil},
		{"mlp.language_mlp.gate_proj", "ffn_gate", nil},
		{"mlp.language_mlp.up_proj", "ffn_up", nil},
		{"mlp.language_mlp.down_proj", "ffn_down", nil},
	}.And(ends, attention, dense),
	keys: func(k *keys) {
		vocabSize(k)
		rotating(k, 1)
	},
	skip: []string{"model.vision."},
}
