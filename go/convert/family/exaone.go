package family

import "github.com/quern-llm/quern/go/convert/lang"

var exaone = lang.Family{
	Arch:  "exaone",
	Names: "ExaoneForCausalLM",
	Rules: lang.Rules{
		{"attn.attention.q_proj", "attn_q", nil},
		{"attn.attention.k_proj", "attn_k", nil},
		{"attn.attention.v_proj", "attn_v", nil},
		{"attn.attention.out_proj", "attn_output", nil},
		{"mlp.c_fc_0", "ffn_gate", nil},
		{"mlp.c_fc_1", "ffn_up", nil},
	}.And(gpt),
	Settings: lang.Settings{{"attention.layer_norm_rms_epsilon", 'f', "layer_norm_epsilon"}},
	Keys: func(k *lang.Keys) {
		rotating(k, 1)
		k.Drop("attention.layer_norm_epsilon")
	},
}

var exaonemoe = lang.Family{
	Arch:  "exaone-moe",
	Names: "ExaoneMoEForCausalLM ExaoneMoeForCausalLM",
	Rules: lang.Rules{{"mlp.e_score_correction_bias", "exp_probs_b.bias", nil}}.And(predicting, ends, attention,
		dense, mixture),
	Settings: routedSettings.And(lang.Settings{{"attention.sliding_window", 'n', "sliding_window"}}),
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		k.N("leading_dense_block_count", k.CountOr("first_k_dense_replace first_last_k_dense_replace", 0))
		k.N("expert_shared_feed_forward_length", k.Count("moe_intermediate_size")*k.CountOr("num_shared_experts", 1))
		k.Set("rope.scaling.type", "none")
		k.Gating("sigmoid")
		windows := k.TypesOf("sliding_attention")
		further(k)
		windows = append(windows, make([]bool, min(k.CountOr("num_nextn_predict_layers", 0), mostNext))...)
		k.Bs("attention.sliding_window_pattern", windows)
	},
	Rename: nextOfQwen,
}
