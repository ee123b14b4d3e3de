package convert

var bloom = family{
	arch:  "bloom",
	names: "BloomForCausalLM BloomModel",
	rules: rules{
		{"word_embeddings_layernorm", "token_embd_norm", nil},
		{"self_attention.query_key_value", "attn_qkv", threes},
	}.And(gpt),
	keys: func(k *keys) {
		width := k.count("hidden_size n_embed n_embd")
		k.n("embedding_length", width)
		k.n("context_length", k.countOr("seq_length", width))
		k.n("feed_forward_length", k.countOr("n_inner", 4*width))
	},
}
