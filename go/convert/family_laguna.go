package convert

import "slices"

var laguna = family{
	arch:  "laguna",
	names: "LagunaForCausalLM",
	rules: rules{
		{"self_attn.g_proj", "attn_gate", nil},
		{"mlp.experts.e_score_correction_bias", "exp_probs_b.bias", nil},
	}.And(ends, attention, dense, mixture),
	settings: expertSettings.And(settings{
		{"attention.head_count", 'n', "num_attention_heads_per_layer"},
		{"expert_weights_scale", 'f', "moe_routed_scaling_factor"},
	}),
	keys: func(k *keys) {
		vocabSize(k)
		windowsApart(k)
		k.b("expert_weights_norm", true)
		k.gating("sigmoid")
		k.n("leading_dense_block_count", k.leading())
	},
	vocab: lagunaVocab,
}

// lagunaVocab makes of the text that ends an answer a token that does, which its tokenizer says of none.
func lagunaVocab(_ *config, v *vocabulary) {
	if end := slices.Index(v.tokens, "</assistant>"); end >= 0 {
		v.types[end] = control
		v.setSpecial("eot", end)
	}
}
