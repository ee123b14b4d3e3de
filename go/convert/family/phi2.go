package family

import "github.com/quern-llm/quern/go/convert/lang"

var phi2 = lang.Family{
	Arch:  "phi2",
	Names: "PhiForCausalLM",
	Rules: lang.Rules{
		{"self_attn.dense", "attn_output", nil},
		{"final_layernorm", "output_norm", nil},
		{"mlp.fc1", "ffn_up", nil},
		{"mlp.fc2", "ffn_down", nil},
	}.And(queryKeyNorms, ends, attention),
	Keys: func(k *lang.Keys) {
		k.N("feed_forward_length", k.CountOr("intermediate_size", 4*k.Count("hidden_size")))
		k.N("attention.head_count_kv", k.HeadsKV())
		rotating(k, 0.5)
	},
	Vocab:      noBOS,
	Activation: "gelu_new",
}
