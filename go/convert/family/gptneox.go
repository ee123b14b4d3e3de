package family

import "github.com/quern-llm/quern/go/convert/lang"

var gptneox = lang.Family{
	Arch:  "gptneox",
	Names: "GPTNeoXForCausalLM",
	Rules: lang.Rules{
		{"embed_in", "token_embd", nil},
		{"embed_out", "output", nil},
		{"final_layer_norm", "output_norm", nil},
		{"input_layernorm", "attn_norm", nil},
		{"post_attention_layernorm", "ffn_norm", nil},
		{"attention.query_key_value", "attn_qkv", threes},
		{"attention.dense", "attn_output", nil},
		{"mlp.dense_h_to_4h", "ffn_up", nil},
		{"mlp.dense_4h_to_h", "ffn_down", nil},
		{"attention.bias", "", nil},
		{"attention.masked_bias", "", nil},
	},
	Keys: func(k *lang.Keys) {
		k.N("rope.dimension_count", int(float64(k.HeadDim())*k.Partial(0.25)))
		k.B("use_parallel_residual", !k.Has("use_parallel_residual") || k.Flag("use_parallel_residual"))
	},
	Prefix:     "gpt_neox.",
	Activation: "gelu",
}
