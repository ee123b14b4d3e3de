package convert

import "slices"

var laguna = Family{
	Arch:  "laguna",
	Names: "LagunaForCausalLM",
	Rules: Rules{
		{"self_attn.g_proj", "attn_gate", nil},
		{"mlp.experts.e_score_correction_bias", "exp_probs_b.bias", nil},
	}.And(ends, attention, dense, mixture),
	Settings: expertSettings.And(Settings{
		{"attention.head_count", 'n', "num_attention_heads_per_layer"},
		{"expert_weights_scale", 'f', "moe_routed_scaling_factor"},
	}),
	Keys: func(k *Keys) {
		vocabSize(k)
		windowsApart(k)
		k.B("expert_weights_norm", true)
		k.Gating("sigmoid")
		k.N("leading_dense_block_count", k.Leading())
	},
	Vocab: lagunaVocab,
}

// lagunaVocab makes of the text that ends an answer a token that does, which its tokenizer says of none.
func lagunaVocab(_ *Config, v *Vocabulary) {
	if end := slices.Index(v.Tokens, "</assistant>"); end >= 0 {
		v.Types[end] = Control
		v.SetSpecial("eot", end)
	}
}
