package family

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var kimiLinear = lang.Family{
	Arch:  "kimi-linear",
	Names: "KimiLinearForCausalLM KimiLinearModel",
	Rules: lang.Rules{
		{"self_attn.A_log", "ssm_a", lang.Then(lang.NegExp, lang.Column)},
		{"self_attn.g_a_proj", "ssm_g_a", nil},
		{"self_attn.g_b_proj", "ssm_g_b", nil},

		// dense layers, as transformers 5 writes them
		{"block_sparse_moe.gate_proj", "ffn_gate", nil},
		{"block_sparse_moe.up_proj", "ffn_up", nil},
		{"block_sparse_moe.down_proj", "ffn_down", nil},
	}.And(kimi, latent, ends, attention, dense, blockSparse),
	Settings: latentSettings,
	Keys: func(k *lang.Keys) {
		latentKeys(k)
		kimiLayers(k, k.Within("linear_attn_config"))
		k.Drop("expert_group_count", "expert_group_used_count", "expert_weights_norm")
	},
	Fixed: scanAct.And(lang.Fixed{{"moe_renormalize", "true"}, {"num_expert_group", "1"}}),
}

// kimi is what the layers of Kimi Linear and Kimi K3 have beside latent attention.
var kimi = lang.Rules{
	{"self_attn.q_conv1d.weight", "ssm_conv1d_q.weight", lang.Taps},
	{"self_attn.k_conv1d.weight", "ssm_conv1d_k.weight", lang.Taps},
	{"self_attn.v_conv1d.weight", "ssm_conv1d_v.weight", lang.Taps},
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

// kimiLayers sets which layers have attention, and the sizes of the others.
func kimiLayers(k *lang.Keys, l *hf.Config) {
	attends := make([]bool, k.Layers())
	for _, v := range l.List("full_attn_layers") { // counted from 1
		n, ok := hf.AsCount(v)
		if !ok || n < 1 || n > len(attends) {
			k.Fail("linear_attn_config.full_attn_layers has %.40v, want layers from 1 to %d", v, len(attends))
			return
		}
		attends[n-1] = true
	}
	k.Ns("attention.head_count_kv", lang.Where(attends, 1, 0))
	k.N("ssm.conv_kernel", l.Count("short_conv_kernel_size"))
	k.N("kda.head_dim", l.Count("head_dim"))
	k.Take(l)
}
