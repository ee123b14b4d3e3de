package family

import (
	"math"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var bailingmoe3 = lang.Family{
	Arch:  "bailingmoe3",
	Names: "BailingMoeV3ForCausalLM",
	Rules: lang.Rules{
		{"attention.q_proj", "attn_q", nil},
		{"attention.k_proj", "attn_k", nil},
		{"attention.v_proj", "attn_v", nil},
		{"attention.q_conv1d.weight", "ssm_conv1d_q.weight", lang.Taps},
		{"attention.k_conv1d.weight", "ssm_conv1d_k.weight", lang.Taps},
		{"attention.v_conv1d.weight", "ssm_conv1d_v.weight", lang.Taps},
		{"attention.A_log", "ssm_a", lang.Then(exp, lang.Column)},
		{"attention.dt_bias", "ssm_dt.bias", nil},
		{"attention.f_proj", "ssm_f_a", nil},
		{"attention.b_proj", "ssm_beta", nil},
		{"attention.g_proj", "ssm_g_a", nil},
		{"attention.gate_proj", "attn_gate", nil}, // this is called g_proj too: see Rename
		{"attention.o_norm", "ssm_norm", nil},
		{"attention.o_proj", "attn_output", nil},
		{"mlp.gate.expert_bias", "exp_probs_b.bias", nil},
		{"final_layernorm", "layer_output_norm", nil},
	}.And(predicting, bailing, under("attention.", latent), ends, dense, mixture),
	Settings: latentSettings.And(lang.Settings{
		{"expert_shared_feed_forward_length", 'n', "moe_shared_expert_intermediate_size"},
		{"ssm.conv_kernel", 'n', "short_conv_kernel_size"},
		{"kda.head_dim", 'n', "head_dim"},
		{"kda.safe_gate", 'b', "kda_safe_gate"},
		{"kda.gate_lower_bound", 'f', "kda_lower_bound"},
	}),
	Keys: func(k *lang.Keys) {
		latentKeys(k)
		k.Gating("sigmoid")
		k.Want("no_kda_lora", "true")
		k.Want("kda_safe_gate", "true")
		k.Want("gated_attention_proj_granularity_type", "head_wise")
		further(k)
		n := k.Layers() + min(k.CountOr("num_nextn_predict_layers", 0), mostNext)
		attends := make([]bool, n)
		for il := range attends {
			attends[il] = attends3(k.Config, il)
		}
		k.Ns("attention.head_count_kv", lang.Where(attends, 1, 0))
		k.Limits("swiglu_clamp_exp", "expert_swiglu_limit_list", n)
		k.Limits("swiglu_clamp_shexp", "share_expert_swiglu_limit_list", n)
	},
	Rename: func(c *hf.Config, name string) string {
		if s := lang.Parse(name, nil); s.Layer >= 0 && attends3(c, s.Layer) {
			return strings.Replace(name, ".attention.g_proj.", ".attention.gate_proj.", 1)
		}
		return name
	},
}

// exp computes exp(x).
var exp = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
	return v.Each(func(x float32) float32 { return float32(math.Exp(float64(x))) }), nil
})

// under returns rules with another name in place of self_attn.
func under(name string, rules lang.Rules) lang.Rules {
	rules = slices.Clone(rules)
	for i, r := range rules {
		rules[i].From = strings.Replace(r.From, "self_attn.", name, 1)
	}
	return rules
}

// attends3 reports whether a layer of Ling 3 has attention, and not a delta net.
func attends3(c *hf.Config, il int) bool {
	n, group := c.Layers(), max(c.Count("layer_group_size"), 1)
	return (il+1)%group == 0 || il >= n/group*group
}
