package family

import "github.com/quern-llm/quern/go/convert/lang"

var bloom = lang.Family{
	Arch:  "bloom",
	Names: "BloomForCausalLM BloomModel",
	Rules: lang.Rules{
		{"word_embeddings_layernorm", "token_embd_norm", nil},
		{"self_attention.query_key_value", "attn_qkv", threes},
	}.And(gpt),
	Keys: func(k *lang.Keys) {
		width := k.Count("hidden_size n_embed n_embd")
		k.N("embedding_length", width)
		k.N("context_length", k.CountOr("seq_length", width))
		k.N("feed_forward_length", k.CountOr("n_inner", 4*width))
	},
	Activation: "gelu_new",
	Fixed:      lang.Fixed{{"apply_residual_connection_post_layernorm", "false"}},
}
