package convert

var spark25 = family{
	arch:  "spark2_5",
	names: "Spark2_5ForCausalLM",
	rules: rules{
		{"self_attn.q_k_v_proj", "attn_qkv", nil},
		{"self_attn.g_proj", "attn_gate", nil},
	}.And(ends, attention, dense),
	keys: func(k *keys) {
		k.want("gate_attn_act_mode", "sigmoid")
		k.want("headwise_attn_output_gate", "true")
		k.want("hidden_act", "gelu")
		vocabSize(k)
		windowsApart(k)
	},
}
