package family

import "github.com/quern-llm/quern/go/convert/lang"

var mamba = lang.Family{
	Arch:  "mamba",
	Names: "MambaForCausalLM FalconMambaForCausalLM",
	Rules: lang.Rules{
		{"mixer.A_log", "ssm_a", lang.NegExp},
		{"mixer.D", "ssm_d", nil},
		{"mixer.conv1d.weight", "ssm_conv1d.weight", lang.Squeeze},
		{"mixer.dt_proj", "ssm_dt", nil},
		{"mixer.x_proj", "ssm_x", nil},
	}.And(ssm, scan),
	Keys: func(k *lang.Keys) {
		scanKeys(k)
		width := k.Count("hidden_size d_model")
		k.N("ssm.inner_size", k.CountOr("intermediate_size d_inner", 2*width))
		k.N("ssm.state_size", k.CountOr("state_size d_state", 16))
		k.N("ssm.time_step_rank", k.CountOr("time_step_rank dt_rank", (width+15)/16))
		if k.Text("model_type") == "falcon_mamba" {
			k.B("ssm.dt_b_c_rms", true)
			k.F("quern.ssm.dt_b_c_rms_epsilon", k.NumberOr("mixer_rms_eps", 1e-6))
		} else {
			k.B("ssm.dt_b_c_rms", false)
		}
	},
	Tied:  true,
	Fixed: scanAct,
}

var mamba2 = lang.Family{
	Arch:  "mamba2",
	Names: "Mamba2ForCausalLM",
	Rules: ssm.And(scan),
	Keys: func(k *lang.Keys) {
		scanKeys(k)
		inner := k.CountOr("intermediate_size d_inner", k.CountOr("expand", 2)*k.Count("hidden_size d_model"))
		k.N("ssm.inner_size", inner)
		k.N("ssm.state_size", k.CountOr("state_size d_state", 128))
		k.N("ssm.group_count", k.CountOr("n_groups", 1))
		k.N("ssm.time_step_rank", inner/max(k.CountOr("mamba_d_head head_dim", 64), 1))
		k.Drop("attention.key_length", "attention.value_length")
		stepLimits(k)
	},
	Fixed: scanAct,
}

// scanKeys sets keys of attention for models that have none.
func scanKeys(k *lang.Keys) {
	k.N("context_length", 1<<20)
	k.N("feed_forward_length", 0)
	k.N("attention.head_count", 0)
	k.Drop("attention.head_count_kv", "attention.layer_norm_epsilon")
	k.F("attention.layer_norm_rms_epsilon", k.NumberOr("layer_norm_epsilon rms_norm_eps", 1e-5))
	k.N("ssm.conv_kernel", k.CountOr("conv_kernel d_conv", 4))
}
