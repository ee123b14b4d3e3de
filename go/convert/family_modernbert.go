package convert

var modernBERT = family{
	arch:  "modern-bert",
	names: "ModernBertModel ModernBertForMaskedLM",
	rules: rules{
		{"embeddings.tok_embeddings", "token_embd", nil},
		{"embeddings.norm", "token_embd_norm", nil},
		{"final_norm", "output_norm", nil},
		{"attn_norm", "attn_norm", nil},
		{"attn.Wqkv", "attn_qkv", nil},
		{"attn.Wo", "attn_output", nil},
		{"mlp_norm", "ffn_norm", nil},
		{"mlp.Wi", "ffn_up", nil},
		{"mlp.Wo", "ffn_down", nil},
	},
	settings: settings{
		{"attention.sliding_window", 'n', "local_attention"},
		{"attention.sliding_window_pattern", 'n', "global_attn_every_n_layers"},
	},
	keys: func(k *keys) {
		encoderKeys(k)
		vocabSize(k)
		k.set("rope.scaling.type", "none")
		k.f("attention.layer_norm_epsilon", k.numberOr("norm_eps", 1e-5))
		k.drop("attention.layer_norm_rms_epsilon")
	},
	skip: []string{"head.", "decoder.", "classifier."},
}
