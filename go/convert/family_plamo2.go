package convert

import (
	"math"
	"slices"
)

var plamo2 = family{
	arch:  "plamo2",
	names: "Plamo2ForCausalLM PLaMo2ForCausalLM",
	rules: rules{
		{"mixer.q_weight", "attn_q_norm.weight", nil},
		{"mixer.k_weight", "attn_k_norm.weight", nil},
		{"mixer.in_proj", "ssm_in", nil},
		{"mixer.bcdt_proj", "ssm_x", nil},
		{"mixer.dt_proj", "ssm_dt", nil},
		{"mixer.A_log", "ssm_a", negExp},
		{"mixer.D", "ssm_d", nil},
		{"mixer.dt_norm_weight", "ssm_dt_norm", nil},
		{"mixer.B_norm_weight", "ssm_b_norm", nil},
		{"mixer.C_norm_weight", "ssm_c_norm", nil},
	}.And(plamoLayers, ends, scan),
	keys:  plamo2Keys,
	vocab: plamo2Vocab,
}

// plamoLayers is what PLaMo's layers have, with a scan or without one.
var plamoLayers = rules{
	{"norm", "output_norm", addOne},
	{"pre_mixer_norm", "attn_norm", addOne},
	{"post_mixer_norm.weight", "post_attention_norm", plus(1. / 5)}, // as other programs know it
	{"pre_mlp_norm", "ffn_norm", addOne},
	{"post_mlp_norm.weight", "post_ffw_norm", plus(float32(1 / math.Pow(5, 1.5)))},
	{"mixer.qkv_proj", "attn_qkv", nil},
	{"mixer.o_proj", "attn_output", nil},
	{"mlp.gate_up_proj", "ffn_up", nil},
	{"mlp.down_proj", "ffn_down", nil},
}

func plamo2Keys(k *keys) {
	vocabSize(k)
	layers, step := k.layers(), max(k.countOr("mamba_step", 2), 1)
	attends := every(layers, step/2, step)
	if layers <= step/2 {
		attends = every(layers, max(layers-1, 0), 1)
	}
	if k.flagOr("mamba_enabled", true) {
		k.ns("attention.head_count", where(attends, k.heads(), 0))
		k.ns("attention.head_count_kv", where(attends, k.countOr("num_key_value_heads", 4), 0))
	}
	head := k.countOr("hidden_size_per_head", 128)
	k.n("attention.key_length", head)
	k.n("attention.value_length", head)
	k.n("ssm.conv_kernel", k.countOr("mamba_d_conv", 4))
	k.n("ssm.state_size", k.countOr("mamba_d_state", 64))
	k.n("ssm.time_step_rank", k.countOr("mamba_num_heads", 64))
	k.n("ssm.inner_size", k.countOr("mamba_num_heads", 64)*head)
	k.n("ssm.group_count", 0)
	if k.theta() == 0 {
		k.f("rope.freq_base", 10000)
	}
}

// plamo2Vocab has what ends turns.
func plamo2Vocab(_ *config, v *vocabulary) {
	if v.model != "plamo2" {
		return
	}
	v.setSpecial("eot", slices.Index(v.tokens, "<|plamo:op|>"))
	v.setMore("add_space_prefix", false)
}
