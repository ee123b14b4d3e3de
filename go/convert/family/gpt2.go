package family

import "github.com/quern-llm/quern/go/convert/lang"

var starcoder = lang.Family{
	Arch:  "starcoder",
	Names: "GPTBigCodeForCausalLM",
	Rules: gpt,
	Keys: func(k *lang.Keys) {
		k.N("feed_forward_length", k.CountOr("n_inner", 4*k.Count("n_embd")))
		if k.FlagOr("multi_query", true) {
			k.N("attention.head_count_kv", 1)
		}
	},
	Activation: "gelu_new",
	Fixed:      lang.Fixed{{"scale_attn_weights", "true"}, {"add_cross_attention", "false"}},
}

var gpt2 = lang.Family{
	Arch:  "gpt2",
	Names: "GPT2LMHeadModel",
	Rules: lang.Rules{ // its matrices are transposed
		{"wte", "token_embd", nil},
		{"wpe", "position_embd", nil},
		{"ln_f", "output_norm", nil},
		{"lm_head", "output", nil},
		{"ln_1", "attn_norm", nil},
		{"ln_2", "ffn_norm", nil},
		{"attn.c_attn.weight", "attn_qkv.weight", lang.Transpose},
		{"attn.c_attn", "attn_qkv", nil},
		{"attn.c_proj.weight", "attn_output.weight", lang.Transpose},
		{"attn.c_proj", "attn_output", nil},
		{"mlp.c_fc.weight", "ffn_up.weight", lang.Transpose},
		{"mlp.c_fc", "ffn_up", nil},
		{"mlp.c_proj.weight", "ffn_down.weight", lang.Transpose},
		{"mlp.c_proj", "ffn_down", nil},
		{"attn.bias", "", nil},
		{"attn.masked_bias", "", nil},
	},
	Keys: func(k *lang.Keys) {
		k.N("feed_forward_length", k.CountOr("n_inner", 4*k.Count("n_embd")))
	},
	Activation: "gelu_new",
	Fixed:      lang.Fixed{{"scale_attn_weights", "true"}, {"scale_attn_by_inverse_layer_idx add_cross_attention", "false"}},
}
