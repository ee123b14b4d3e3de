package convert

var refact = Family{
	Arch:  "refact",
	Names: "GPTRefactForCausalLM",
	Rules: Rules{
		{"attn.q", "attn_q", nil},
		{"attn.kv", "attn_k attn_v", Halves},
		{"mlp.gate_up_proj", "ffn_gate ffn_up", Halves},
	}.And(gpt),
	Keys: func(k *Keys) {
		k.N("attention.head_count_kv", 1)
		k.F("attention.layer_norm_rms_epsilon", k.Number("layer_norm_epsilon"))
		k.Drop("attention.layer_norm_epsilon")
	},
	Finish: widths,
}
