package family

import "github.com/quern-llm/quern/go/convert/lang"

var openelm = lang.Family{
	Arch:  "openelm",
	Names: "OpenELMForCausalLM",
	Rules: lang.Rules{
		{"token_embeddings", "token_embd", nil},
		{"norm", "output_norm", nil},
		{"lm_head", "output", nil},
		{"attn_norm", "attn_norm", nil},
		{"attn.qkv_proj", "attn_qkv", nil},
		{"attn.q_norm", "attn_q_norm", nil},
		{"attn.k_norm", "attn_k_norm", nil},
		{"attn.out_proj", "attn_output", nil},
		{"ffn_norm", "ffn_norm", nil},
		{"ffn.proj_1", "ffn_gate ffn_up", lang.Halves},
		{"ffn.proj_2", "ffn_down", nil},
	},
	Settings: lang.Settings{
		{"embedding_length", 'n', "model_dim"},
		{"context_length", 'n', "max_context_length"},
		{"attention.head_count", 'n', "num_query_heads"},
		{"attention.head_count_kv", 'n', "num_kv_heads"},
	},
	Keys: func(k *lang.Keys) {
		k.F("attention.layer_norm_rms_epsilon", 1e-6)
		k.F("rope.freq_base", k.NumberOr("rope_freq_constant", 10000))
		k.N("rope.dimension_count", k.Count("head_dim"))
	},
	Finish: widths,
}
