package convert

var gemma4 = family{
	arch:  "gemma4",
	names: "Gemma4ForConditionalGeneration Gemma4ForCausalLM Gemma4UnifiedForConditionalGeneration",
	rules: rules{
		{"layer_scalar", "layer_output_scale.weight", nil},
		{"post_feedforward_layernorm_1", "post_ffw_norm_1", nil},
		{"post_feedforward_layernorm_2", "post_ffw_norm_2", nil},
		{"pre_feedforward_layernorm_2", "pre_ffw_norm_2", nil},
		{"router.proj", "ffn_gate_inp", nil},
		{"router.scale", "ffn_gate_inp.scale", nil},
		{"router.per_expert_scale", "ffn_down_exps.scale", nil},
		{"experts.gate_up_proj", "ffn_gate_up_exps.weight", nil},
		{"experts.down_proj", "ffn_down_exps.weight", nil},
	}.And(perLayer, gemmaRules),
	settings: settings{
		{"final_logit_softcapping", 'f', "final_logit_softcapping"},
		{"attention.sliding_window", 'n', "sliding_window"},
		{"expert_feed_forward_length", 'n', "expert_intermediate_size moe_intermediate_size"},
	},
	keys:  gemma4Keys,
	extra: gemma4Factors,
	skip:  []string{"lm_head."},
	vocab: gemma4Vocab,
}

// gemma4Keys has what differs between layers with and without windows.
func gemma4Keys(k *keys) {
	windows := k.typesOf("sliding_attention")
	shared, layers := k.countOr("num_kv_shared_layers", 0), len(windows)
	k.n("attention.shared_kv_layers", shared)
	k.n("embedding_length_per_layer_input", k.countOr("hidden_size_per_layer_input", 0))
	k.bs("attention.sliding_window_pattern", windows)
	full, window := k.count("global_head_dim"), k.count("head_dim")
	k.n("attention.key_length", full)
	k.n("attention.value_length", full)
	k.n("attention.key_length_swa", window)
	k.n("attention.value_length_swa", window)
	k.n("rope.dimension_count", full)
	k.n("rope.dimension_count_swa", int(float64(window)*windowShare(k.config)))
	if k.flag("use_double_wide_mlp") {
		wide := make([]bool, layers)
		for i := range wide {
			wide[i] = i >= layers-shared
		}
		n := k.count("intermediate_size")
		k.ns("feed_forward_length", where(wide, 2*n, n))
	}
	if k.has("num_global_key_value_heads") {
		k.ns("attention.head_count_kv", where(windows, k.count("num_key_value_heads"), k.count("num_global_key_value_heads")))
	}
	if k.experts() == 0 {
		k.drop("expert_count", "expert_used_count", "expert_feed_forward_length")
	}
}

// gemma4Factors leaves channels of the layers without a window as they are: with a period that no text reaches.
func gemma4Factors(c *config) map[string]view {
	r := c.ropeOf("full_attention")
	defer c.take(r)
	n := c.channels(c.count("global_head_dim"))
	turning := int(float64(n) * r.numberOr("partial_rotary_factor", 1) / 2)
	factors := make([]float32, n/2)
	for i := range factors {
		factors[i] = 1
		if i >= turning {
			factors[i] = 1e30
		}
	}
	return map[string]view{"rope_freqs.weight": constant(factors)}
}

// gemma4Vocab makes marks that clients read visible.
func gemma4Vocab(_ *config, v *vocabulary) {
	for i, text := range v.tokens {
		switch text {
		case "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", `<|"|>`:
			v.types[i] = userDefined
		}
	}
	v.setMore("add_space_prefix", false)
	v.setAdd("bos", true)
}
