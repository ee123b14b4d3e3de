package family

import "github.com/quern-llm/quern/go/convert/lang"

var falcon = lang.Family{
	Arch:  "falcon",
	Names: "FalconForCausalLM RWForCausalLM",
	Rules: lang.Rules{
		{"self_attention.query_key_value", "attn_qkv", lang.Then(groups, lang.Together)},
		{"ln_attn", "attn_norm_2", nil},
		{"ln_mlp", "attn_norm", nil},
	}.And(gpt),
	Keys: func(k *lang.Keys) {
		k.N("context_length", k.CountOr("max_position_embeddings", 2048))
		k.N("feed_forward_length", k.CountOr("ffn_hidden_size", 4*k.Count("hidden_size")))
		k.N("attention.head_count_kv", groupsOf(k.Config))
		if k.Flag("alibi") {
			k.F("attention.max_alibi_bias", 8)
		}
		if !k.FlagOr("parallel_attn", true) && !k.Flag("new_decoder_architecture") {
			k.B("use_parallel_residual", false)
		}
	},
	Activation: "gelu",
}
