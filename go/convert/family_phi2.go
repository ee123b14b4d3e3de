package convert

var phi2 = family{
	arch:  "phi2",
	names: "PhiForCausalLM",
	rules: rules{
		{"self_attn.dense", "attn_output", nil},
		{"final_layernorm", "output_norm", nil},
		{"mlp.fc1", "ffn_up", nil},
		{"mlp.fc2", "ffn_down", nil},
	}.And(ends, attention),
	keys: func(k *keys) {
		k.n("feed_forward_length", k.countOr("intermediate_size", 4*k.count("hidden_size")))
		k.n("attention.head_count_kv", k.headsKV())
		rotating(k, 0.5)
	},
	vocab: noBOS,
}
