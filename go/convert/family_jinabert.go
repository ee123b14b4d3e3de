package convert

var jinaBERTv2 = family{
	arch:  "jina-bert-v2",
	names: "JinaBertModel JinaBertForMaskedLM",
	rules: rules{
		{"mlp.gated_layers", "ffn_gate ffn_up", halves},
		{"mlp.up_gated_layer", "ffn_up ffn_gate", halves},
		{"mlp.wo", "ffn_down", nil},
		{"mlp.down_layer", "ffn_down", nil},
		{"mlp.layernorm", "layer_output_norm", nil},
		{"layer_norm_1", "attn_norm_2", nil},
		{"layer_norm_2", "layer_output_norm", nil},
		{"attention.self.layer_norm_q", "attn_q_norm", nil},
		{"attention.self.layer_norm_k", "attn_k_norm", nil},
	}.And(bertRules),
	keys:  encoderKeys,
	skip:  maskedHeads,
	vocab: jinaVocab,
}

// jinaVocab puts the ends of texts that these models were trained with.
func jinaVocab(c *config, v *vocabulary) {
	typesOfTexts(c, v)
	v.setAdd("bos", true)
	v.setAdd("eos", true)
}
