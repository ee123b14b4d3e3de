package family

import "github.com/quern-llm/quern/go/convert/lang"

var mpt = lang.Family{
	Arch:  "mpt",
	Names: "MPTForCausalLM MptForCausalLM",
	Rules: lang.Rules{
		{"norm_f", "output_norm", nil},
		{"norm_1", "attn_norm", nil},
		{"norm_2", "ffn_norm", nil},
		{"attn.Wqkv", "attn_qkv", nil},
		{"attn.out_proj", "attn_output", nil},
		{"attn.q_ln", "attn_q_norm", nil},
		{"attn.k_ln", "attn_k_norm", nil},
		{"ffn.up_proj", "ffn_up", nil},
		{"ffn.down_proj", "ffn_down", nil},
	}.And(gpt),
	Keys: func(k *lang.Keys) {
		a := k.Within("attn_config")
		k.N("context_length", k.Count("max_seq_len"))
		k.N("feed_forward_length", int(k.NumberOr("expansion_ratio", 4)*float64(k.Count("d_model"))))
		if n := a.CountOr("kv_n_heads", 0); n > 0 {
			k.N("attention.head_count_kv", n)
		}
		k.F("attention.layer_norm_epsilon", 1e-5)
		if a.Has("clip_qkv") {
			k.F("attention.clamp_kqv", a.Number("clip_qkv"))
		}
		bias := 0.0
		if a.Flag("alibi") {
			bias = a.NumberOr("alibi_bias_max", 8)
		}
		k.F("attention.max_alibi_bias", bias)
		k.Take(a)
	},
	Activation: "gelu",
	Fixed: lang.Fixed{
		{"attn_config.attn_type", "multihead_attention multiquery_attention grouped_query_attention"},
		{"attn_config.prefix_lm attn_config.attn_uses_sequence_id", "false"},
		{"norm_type", "low_precision_layernorm layernorm"},
	},
}
