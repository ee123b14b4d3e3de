package family

import "github.com/quern-llm/quern/go/convert/lang"

var hunyuanmoe = lang.Family{
	Arch:  "hunyuan-moe",
	Names: "HunYuanMoEV1ForCausalLM",
	Rules: lang.Rules{
		{"self_attn.query_layernorm", "attn_q_norm", nil},
		{"self_attn.key_layernorm", "attn_k_norm", nil},
		{"mlp.gate.wg", "ffn_gate_inp", nil},
	}.And(ends, attention, dense, mixture),
	Settings: lang.Settings{{"expert_shared_feed_forward_length", 'n', "intermediate_size"}},
	Keys: func(k *lang.Keys) {
		alike(k, "expert_used_count", "moe_topk num_experts_per_tok")
		alike(k, "expert_feed_forward_length", "moe_intermediate_size intermediate_size")
		if k.N("expert_shared_count", 1); k.Has("num_shared_expert") {
			alike(k, "expert_shared_count", "num_shared_expert")
		}
		stretched(k)
	},
}

// alike sets a key to the number that a list has for each layer. It must be the same for all.
func alike(k *lang.Keys, key, names string) {
	v, name := k.Find(names)
	list, ok := v.([]any)
	if !ok {
		k.N(key, k.Count(names))
		return
	}
	all := k.Integers(name, list)
	for _, n := range all {
		if n != all[0] {
			k.Fail("%s differs between layers, %d and %d; want one for all", name, all[0], n)
			return
		}
	}
	if len(all) > 0 {
		k.N(key, int(all[0]))
	}
}
