package convert

import "slices"

var phi2 = family{
	arch:  "phi2",
	names: "PhiForCausalLM",
	rules: with(slices.Concat(ends, attention),
		rule{"self_attn.dense", "attn_output", nil},
		rule{"final_layernorm", "output_norm", nil},
		rule{"mlp.fc1", "ffn_up", nil},
		rule{"mlp.fc2", "ffn_down", nil}),
	keys: func(k *keys) {
		k.n("feed_forward_length", k.countOr("intermediate_size", 4*k.count("hidden_size")))
		k.n("attention.head_count_kv", k.headsKV())
		rotating(k, 0.5)
	},
	vocab: noBOS,
}
