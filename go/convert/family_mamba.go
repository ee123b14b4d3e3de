package convert

var mamba = family{
	arch:  "mamba",
	names: "MambaForCausalLM FalconMambaForCausalLM",
	rules: rules{
		{"mixer.A_log", "ssm_a", negExp},
		{"mixer.D", "ssm_d", nil},
		{"mixer.conv1d.weight", "ssm_conv1d.weight", squeeze},
		{"mixer.dt_proj", "ssm_dt", nil},
		{"mixer.x_proj", "ssm_x", nil},
	}.And(ssm, scan),
	keys: func(k *keys) {
		scanKeys(k)
		width := k.count("hidden_size d_model")
		k.n("ssm.inner_size", k.countOr("intermediate_size d_inner", 2*width))
		k.n("ssm.state_size", k.countOr("state_size d_state", 16))
		k.n("ssm.time_step_rank", k.countOr("time_step_rank dt_rank", (width+15)/16))
		k.b("ssm.dt_b_c_rms", k.text("model_type") == "falcon_mamba")
	},
	skip: []string{"lm_head."},
}

var mamba2 = family{
	arch:  "mamba2",
	names: "Mamba2ForCausalLM",
	rules: ssm.And(scan),
	keys: func(k *keys) {
		scanKeys(k)
		inner := k.countOr("intermediate_size d_inner", 2*k.count("hidden_size d_model"))
		k.n("ssm.inner_size", inner)
		k.n("ssm.state_size", k.countOr("state_size d_state", 128))
		k.n("ssm.group_count", k.countOr("n_groups", 1))
		k.n("ssm.time_step_rank", inner/max(k.countOr("mamba_d_head head_dim", 64), 1))
		k.drop("attention.key_length", "attention.value_length")
	},
}

// scanKeys has what models that only scan have in place of attention.
func scanKeys(k *keys) {
	k.n("context_length", 1<<20)
	k.n("feed_forward_length", 0)
	k.n("attention.head_count", 0)
	k.drop("attention.head_count_kv", "attention.layer_norm_epsilon")
	k.f("attention.layer_norm_rms_epsilon", k.numberOr("layer_norm_epsilon rms_norm_eps", 1e-5))
	k.n("ssm.conv_kernel", k.countOr("conv_kernel d_conv", 4))
}
