package convert

var lfm2 = family{
	arch:     "lfm2",
	names:    "Lfm2ForCausalLM LFM2ForCausalLM",
	rules:    convolved.And(ends, attention),
	settings: settings{{"shortconv.l_cache", 'n', "conv_L_cache"}},
	keys: func(k *keys) {
		convolvedKeys(k)
		k.n("feed_forward_length", widthOf(k.config))
	},
}

var lfm2moe = family{
	arch:  "lfm2moe",
	names: "Lfm2MoeForCausalLM",
	rules: convolved.And(ends, attention),
	settings: settings{
		{"shortconv.l_cache", 'n', "conv_L_cache"},
		{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
		{"leading_dense_block_count", 'n', "num_dense_layers"},
	},
	keys: func(k *keys) {
		convolvedKeys(k)
		k.n("expert_gating_func", 2)
	},
}

// convolved is layers that convolve, of LFM 2.
var convolved = rules{
	{"embedding_norm", "token_embd_norm", nil},
	{"operator_norm", "attn_norm", nil},
	{"ffn_norm", "ffn_norm", nil},
	{"self_attn.out_proj", "attn_output", nil},
	{"self_attn.q_layernorm", "attn_q_norm", nil},
	{"self_attn.k_layernorm", "attn_k_norm", nil},
	{"conv.conv", "shortconv.conv", squeeze},
	{"conv.in_proj", "shortconv.in_proj", nil},
	{"conv.out_proj", "shortconv.out_proj", nil},
	{"feed_forward.w1", "ffn_gate", nil},
	{"feed_forward.w2", "ffn_down", nil},
	{"feed_forward.w3", "ffn_up", nil},
	{"feed_forward.gate", "ffn_gate_inp", nil},
	{"feed_forward.expert_bias", "exp_probs_b.bias", nil},
	{"feed_forward.experts.*.w1", "ffn_gate_exps", nil},
	{"feed_forward.experts.*.w2", "ffn_down_exps", nil},
	{"feed_forward.experts.*.w3", "ffn_up_exps", nil},
}

func convolvedKeys(k *keys) {
	attends := k.typesOf("full_attention")
	k.ns("attention.head_count_kv", where(attends, k.headsKV(), 0))
	k.f("attention.layer_norm_rms_epsilon", k.number("norm_eps rms_norm_eps"))
	vocabSize(k)
}

// widthOf returns the width of LFM 2's feed-forward networks, which is computed of the one that is given.
func widthOf(c *config) int {
	n := c.count("block_ff_dim intermediate_size")
	if c.flag("block_auto_adjust_ff_dim") {
		of := max(c.countOr("block_multiple_of", 256), 1)
		n = int(c.numberOr("block_ffn_dim_multiplier", 1) * float64(2*n/3))
		n = (n + of - 1) / of * of
	}
	return n
}
