package family

import (
	"math"
	"slices"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/vocab"
)

var plamo2 = lang.Family{
	Arch:  "plamo2",
	Names: "Plamo2ForCausalLM PLaMo2ForCausalLM",
	Rules: lang.Rules{
		{"mixer.q_weight", "attn_q_norm.weight", nil},
		{"mixer.k_weight", "attn_k_norm.weight", nil},
		{"mixer.in_proj", "ssm_in", nil},
		{"mixer.bcdt_proj", "ssm_x", nil},
		{"mixer.dt_proj", "ssm_dt", nil},
		{"mixer.A_log", "ssm_a", lang.NegExp},
		{"mixer.D", "ssm_d", nil},
		{"mixer.dt_norm_weight", "ssm_dt_norm", nil},
		{"mixer.B_norm_weight", "ssm_b_norm", nil},
		{"mixer.C_norm_weight", "ssm_c_norm", nil},
	}.And(plamoLayers, ends, scan),
	Keys:  plamo2Keys,
	Vocab: plamo2Vocab,
}

// plamoLayers is what PLaMo's layers have, with or without a scan.
var plamoLayers = lang.Rules{
	{"norm", "output_norm", lang.AddOne},
	{"pre_mixer_norm", "attn_norm", lang.AddOne},
	{"post_mixer_norm.weight", "post_attention_norm", lang.Plus(1. / 5)}, // the name that llama.cpp has
	{"pre_mlp_norm", "ffn_norm", lang.AddOne},
	{"post_mlp_norm.weight", "post_ffw_norm", lang.Plus(float32(1 / math.Pow(5, 1.5)))},
	{"mixer.qkv_proj", "attn_qkv", nil},
	{"mixer.o_proj", "attn_output", nil},
	{"mlp.gate_up_proj", "ffn_up", nil},
	{"mlp.down_proj", "ffn_down", nil},
}

func plamo2Keys(k *lang.Keys) {
	vocabSize(k)
	layers, step := k.Layers(), max(k.CountOr("mamba_step", 2), 1)
	attends := lang.Every(layers, step/2, step)
	if layers <= step/2 {
		attends = lang.Every(layers, max(layers-1, 0), 1)
	}
	if k.FlagOr("mamba_enabled", true) {
		k.Ns("attention.head_count", lang.Where(attends, k.Heads(), 0))
		k.Ns("attention.head_count_kv", lang.Where(attends, k.CountOr("num_key_value_heads", 4), 0))
	}
	head := k.CountOr("hidden_size_per_head", 128)
	k.N("attention.key_length", head)
	k.N("attention.value_length", head)
	k.N("ssm.conv_kernel", k.CountOr("mamba_d_conv", 4))
	k.N("ssm.state_size", k.CountOr("mamba_d_state", 64))
	k.N("ssm.time_step_rank", k.CountOr("mamba_num_heads", 64))
	k.N("ssm.inner_size", k.CountOr("mamba_num_heads", 64)*head)
	k.N("ssm.group_count", 0)
	if k.Theta() == 0 {
		k.F("rope.freq_base", 10000)
	}
}

// plamo2Vocab sets the token that ends turns.
func plamo2Vocab(_ *hf.Config, v *vocab.Vocabulary) {
	if v.Model != "plamo2" {
		return
	}
	v.SetSpecial("eot", slices.Index(v.Tokens, "<|plamo:op|>"))
	v.Set("add_space_prefix", false)
}
