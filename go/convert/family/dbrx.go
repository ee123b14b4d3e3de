package family

import "github.com/quern-llm/quern/go/convert/lang"

var dbrx = lang.Family{
	Arch:  "dbrx",
	Names: "DbrxForCausalLM",
	Rules: lang.Rules{
		{"wte", "token_embd", nil},
		{"norm_f", "output_norm", nil},
		{"lm_head", "output", nil},
		{"norm_attn_norm.norm_1", "attn_norm", nil},
		{"norm_attn_norm.norm_2", "attn_output_norm", nil},
		{"norm_attn_norm.attn.Wqkv", "attn_qkv", nil},
		{"norm_attn_norm.attn.out_proj", "attn_output", nil},
		{"ffn.router.layer", "ffn_gate_inp", nil},
		{"ffn.experts.mlp.w1", "ffn_gate_exps.weight", lang.ByExpert},
		{"ffn.experts.mlp.v1", "ffn_up_exps.weight", lang.ByExpert},
		{"ffn.experts.mlp.w2", "ffn_down_exps.weight", lang.Then(lang.ByExpert, lang.Transpose)},
	},
	Keys: func(k *lang.Keys) {
		a, f := k.Within("attn_config"), k.Within("ffn_config")
		k.N("context_length", k.Count("max_seq_len"))
		k.N("feed_forward_length", f.Count("ffn_hidden_size"))
		k.N("attention.head_count_kv", a.Count("kv_n_heads"))
		if a.Has("rope_theta") || k.Theta() == 0 {
			k.F("rope.freq_base", a.Number("rope_theta"))
		}
		k.F("attention.clamp_kqv", a.NumberOr("clip_qkv", 0))
		k.N("expert_count", f.Count("moe_num_experts"))
		k.N("expert_used_count", f.Count("moe_top_k"))
		k.F("attention.layer_norm_epsilon", 1e-5)
		k.Take(a)
		k.Take(f)
	},
	Fixed: lang.Fixed{{"ffn_config.ffn_act_fn.name", "silu"}, {"ffn_config.moe_normalize_expert_weights", "1"}},
}
