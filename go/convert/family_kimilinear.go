package convert

var kimiLinear = family{
	arch:  "kimi-linear",
	names: "KimiLinearForCausalLM KimiLinearModel",
	rules: rules{
		{"self_attn.A_log", "ssm_a", then(negExp, column)},
		{"self_attn.g_a_proj", "ssm_g_a", nil},
		{"self_attn.g_b_proj", "ssm_g_b", nil},
	}.And(kimi, latent, ends, attention, dense, blockSparse),
	settings: latentSettings,
	keys: func(k *keys) {
		latentKeys(k)
		kimiLayers(k, k.within("linear_attn_config"))
		k.drop("expert_group_count", "expert_group_used_count", "expert_weights_norm")
	},
}

// kimi is what layers of Kimi Linear and its heirs have beside attention over latents.
var kimi = rules{
	{"self_attn.q_conv1d.weight", "ssm_conv1d_q.weight", taps},
	{"self_attn.k_conv1d.weight", "ssm_conv1d_k.weight", taps},
	{"self_attn.v_conv1d.weight", "ssm_conv1d_v.weight", taps},
	{"self_attn.dt_bias", "ssm_dt.bias", nil},
	{"self_attn.f_a_proj", "ssm_f_a", nil},
	{"self_attn.f_b_proj", "ssm_f_b", nil},
	{"self_attn.b_proj", "ssm_beta", nil},
	{"self_attn.o_norm", "ssm_norm", nil},
	{"block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias", nil},
	{"block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp", nil},
	{"block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp", nil},
	{"block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp", nil},
}

// kimiLayers says which layers attend, and the sizes of the others.
func kimiLayers(k *keys, l *config) {
	attends := make([]bool, k.layers())
	for _, v := range l.list("full_attn_layers") { // from 1 on
		n, ok := asCount(v)
		if !ok || n < 1 || n > len(attends) {
			k.fail("linear_attn_config.full_attn_layers has %.40v, want layers from 1 to %d", v, len(attends))
			return
		}
		attends[n-1] = true
	}
	k.ns("attention.head_count_kv", where(attends, 1, 0))
	k.n("ssm.conv_kernel", l.count("short_conv_kernel_size"))
	k.n("kda.head_dim", l.count("head_dim"))
	k.take(l)
}
