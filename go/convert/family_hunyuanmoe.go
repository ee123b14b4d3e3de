package convert

var hunyuanmoe = family{
	arch:  "hunyuan-moe",
	names: "HunYuanMoEV1ForCausalLM",
	rules: rules{
		{"self_attn.query_layernorm", "attn_q_norm", nil},
		{"self_attn.key_layernorm", "attn_k_norm", nil},
		{"mlp.gate.wg", "ffn_gate_inp", nil},
	}.And(ends, attention, dense, mixture),
	settings: settings{{"expert_shared_feed_forward_length", 'n', "intermediate_size"}},
	keys: func(k *keys) {
		alike(k, "expert_used_count", "moe_topk num_experts_per_tok")
		alike(k, "expert_feed_forward_length", "moe_intermediate_size")
		alike(k, "expert_shared_count", "num_shared_expert")
		stretched(k)
	},
}

// alike sets a key to the number that a list has for each layer, which has to be the same one.
func alike(k *keys, key, names string) {
	v, name := k.find(names)
	list, ok := v.([]any)
	if !ok {
		k.n(key, k.count(names))
		return
	}
	all := k.integers(name, list)
	for _, n := range all {
		if n != all[0] {
			k.fail("%s differs between layers, %d and %d; want one for all", name, all[0], n)
			return
		}
	}
	if len(all) > 0 {
		k.n(key, int(all[0]))
	}
}
