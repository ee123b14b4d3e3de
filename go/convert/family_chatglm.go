package convert

var chatglm = family{
	arch:  "chatglm",
	names: "ChatGLMModel ChatGLMForConditionalGeneration",
	rules: rules{
		{"embedding.word_embeddings", "token_embd", nil},
		{"encoder.final_layernorm", "output_norm", nil},
		{"output_layer", "output", nil},
		{"self_attention.query_key_value", "attn_qkv", nil},
		{"rotary_pos_emb.inv_freq", "", nil},
	}.And(gpt),
	keys: func(k *keys) {
		k.n("context_length", k.countOr("seq_length", k.count("hidden_size")))
		k.n("feed_forward_length", k.countOr("ffn_hidden_size", 4*k.count("hidden_size")))
		k.n("attention.head_count_kv", k.countOr("multi_query_group_num", k.heads()))
		k.f("attention.layer_norm_rms_epsilon", k.number("layernorm_epsilon"))
		k.n("rope.dimension_count", k.countOr("kv_channels", k.headDim())/2)
		k.f("rope.freq_base", 10000*k.numberOr("rope_ratio", 1))
		k.drop("attention.layer_norm_epsilon")
	},
	vocab: glmVocab,
}
