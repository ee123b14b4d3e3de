package convert

var nomicBERT = family{
	arch:  "nomic-bert",
	names: "NomicBertModel",
	rules: rules{
		{"emb_ln", "token_embd_norm", nil},
		{"attn.Wqkv", "attn_qkv", nil},
		{"attn.out_proj", "attn_output", nil},
		{"norm1", "attn_output_norm", nil},
		{"norm2", "layer_output_norm", nil},
		{"mlp.fc11", "ffn_up", nil},
		{"mlp.fc12", "ffn_gate", nil},
		{"mlp.fc2", "ffn_down", nil},
	}.And(bertRules),
	keys: func(k *keys) {
		encoderKeys(k)
		k.drop("attention.head_count_kv")
	},
	change: withExperts,
	skip:   maskedHeads,
	vocab:  typesOfTexts,
}

// withExperts is nomic-embed-text with experts in some of its layers.
func withExperts(c *config, f *family) *family {
	if c.countOr("moe_every_n_layers", 0) == 0 {
		return f
	}
	kind := *f
	kind.arch = "nomic-bert-moe"
	kind.rules = rules{
		{"mlp.fc1", "ffn_up", nil},
		{"mlp.router.layer", "ffn_gate_inp", nil},
		{"mlp.experts.mlp.w1", "ffn_up_exps.weight", byExpert},
		{"mlp.experts.mlp.w2", "ffn_down_exps.weight", then(byExpert, transpose)},
		{"mlp.experts.bias", "", nil},
	}.And(f.rules)
	kind.settings = settings{{"moe_every_n_layers", 'n', "moe_every_n_layers"}, {"expert_used_count", 'n', "moe_top_k"}}
	return &kind
}
