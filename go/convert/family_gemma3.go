package convert

var gemma3 = family{
	arch:     "gemma3",
	names:    "Gemma3ForCausalLM Gemma3ForConditionalGeneration",
	rules:    plusOne(gemmaRules),
	settings: settings{{"final_logit_softcapping", 'f', "final_logit_softcapping"}, {"attention.sliding_window", 'n', "sliding_window"}},
	keys:     gemma3Keys,
	skip:     []string{"lm_head."},
	vocab:    noSpace,
}

// gemma3Keys has the defaults of settings that are left out.
func gemma3Keys(k *keys) {
	k.n("context_length", k.countOr("max_position_embeddings", 131072))
	k.n("attention.head_count", k.countOr("num_attention_heads", 8))
	k.n("attention.head_count_kv", k.countOr("num_key_value_heads", 4))
	k.n("attention.key_length", k.countOr("head_dim", 256))
	k.n("attention.value_length", k.countOr("head_dim", 256))
	k.f("attention.layer_norm_rms_epsilon", k.numberOr("rms_norm_eps", 1e-6))
	if k.theta() == 0 {
		k.f("rope.freq_base", 1e6)
	}
	if k.has("attn_logit_softcapping") {
		k.fail("attn_logit_softcapping: gemma3 has none")
	}
}
