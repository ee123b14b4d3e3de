package convert

var internlm2 = Family{
	Arch:  "internlm2",
	Names: "InternLM2ForCausalLM",
	Rules: Rules{
		{"tok_embeddings", "token_embd", nil},
		{"output", "output", nil},
		{"attention_norm", "attn_norm", nil},
		{"ffn_norm", "ffn_norm", nil},
		{"attention.wqkv", "attn_q attn_k attn_v", Then(groups, Each3(Permute((*Config).Heads), Permute((*Config).HeadsKV), nil))},
		{"attention.wo", "attn_output", nil},
		{"feed_forward.w1", "ffn_gate", nil},
		{"feed_forward.w2", "ffn_down", nil},
		{"feed_forward.w3", "ffn_up", nil},
	}.And(ends),
}

var xverse = Family{
	Arch:  "xverse",
	Names: "XverseForCausalLM",
	Rules: ends.And(pairs, dense),
	Keys:  func(k *Keys) { rotating(k, 1) },
}
