package family

import "github.com/quern-llm/quern/go/convert/lang"

var persimmon = lang.Family{
	Arch:  "persimmon",
	Names: "PersimmonForCausalLM",
	Rules: lang.Rules{
		{"final_layernorm", "output_norm", nil},
		{"self_attn.query_key_value", "attn_qkv", threes},
		{"self_attn.dense", "attn_output", nil},
		{"mlp.dense_h_to_4h", "ffn_up", nil},
		{"mlp.dense_4h_to_h", "ffn_down", nil},
	}.And(queryKeyNorms, ends, attention, dense),
	Keys:       func(k *lang.Keys) { rotating(k, 0.5) },
	Activation: "relu2",
}

// queryKeyNorms is norms of queries and keys under the names of Phi and Persimmon.
var queryKeyNorms = lang.Rules{
	{"self_attn.q_layernorm", "attn_q_norm", nil},
	{"self_attn.k_layernorm", "attn_k_norm", nil},
}
