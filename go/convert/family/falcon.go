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
			k.Fail("alibi is true, want a model with rotations")
		}
	},
	Activation: "gelu",
	Fixed:      lang.Fixed{{"parallel_attn", "true"}},
}
