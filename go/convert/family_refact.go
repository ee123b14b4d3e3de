package convert

var refact = family{
	arch:  "refact",
	names: "GPTRefactForCausalLM",
	rules: rules{
		{"attn.q", "attn_q", nil},
		{"attn.kv", "attn_k attn_v", halves},
		{"mlp.gate_up_proj", "ffn_gate ffn_up", halves},
	}.And(gpt),
	keys: func(k *keys) {
		k.n("attention.head_count_kv", 1)
		k.f("attention.layer_norm_rms_epsilon", k.number("layer_norm_epsilon"))
		k.drop("attention.layer_norm_epsilon")
	},
	finish: widths,
}
