package convert

var jinaBERTv2 = Family{
	Arch:  "jina-bert-v2",
	Names: "JinaBertModel JinaBertForMaskedLM",
	Rules: Rules{
		{"mlp.gated_layers", "ffn_gate ffn_up", Halves},
		{"mlp.up_gated_layer", "ffn_up ffn_gate", Halves},
		{"mlp.wo", "ffn_down", nil},
		{"mlp.down_layer", "ffn_down", nil},
		{"mlp.layernorm", "layer_output_norm", nil},
		{"layer_norm_1", "attn_norm_2", nil},
		{"layer_norm_2", "layer_output_norm", nil},
		{"attention.self.layer_norm_q", "attn_q_norm", nil},
		{"attention.self.layer_norm_k", "attn_k_norm", nil},
	}.And(bertRules),
	Keys:  encoderKeys,
	Skip:  maskedHeads,
	Vocab: jinaVocab,
}

// jinaVocab puts the ends of texts that these models were trained with.
func jinaVocab(c *Config, v *Vocabulary) {
	typesOfTexts(c, v)
	v.SetAdd("bos", true)
	v.SetAdd("eos", true)
}
