package convert

var internlm2 = family{
	arch:  "internlm2",
	names: "InternLM2ForCausalLM",
	rules: rules{
		{"tok_embeddings", "token_embd", nil},
		{"output", "output", nil},
		{"attention_norm", "attn_norm", nil},
		{"ffn_norm", "ffn_norm", nil},
		{"attention.wqkv", "attn_q attn_k attn_v", then(groups, each3(permute((*config).heads), permute((*config).headsKV), nil))},
		{"attention.wo", "attn_output", nil},
		{"feed_forward.w1", "ffn_gate", nil},
		{"feed_forward.w2", "ffn_down", nil},
		{"feed_forward.w3", "ffn_up", nil},
	}.And(ends),
}

var xverse = family{
	arch:  "xverse",
	names: "XverseForCausalLM",
	rules: ends.And(pairs, dense),
	keys:  func(k *keys) { rotating(k, 1) },
}
