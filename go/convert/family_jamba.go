package convert

import (
	"strings"
)

var jamba = family{
	arch:  "jamba",
	names: "JambaForCausalLM",
	rules: rules{
		{"final_layernorm", "output_norm", nil},
		{"pre_ff_layernorm", "ffn_norm", nil},
		{"pre_moe_layernorm", "ffn_norm", nil},
		{"feed_forward.experts.*.gate_proj", "ffn_gate_exps", nil},
		{"feed_forward.experts.*.up_proj", "ffn_up_exps", nil},
		{"feed_forward.experts.*.down_proj", "ffn_down_exps", nil},
		{"mamba.A_log", "ssm_a", negExp},
		{"mamba.D", "ssm_d", nil},
		{"mamba.x_proj", "ssm_x", nil},
		{"mamba.dt_proj", "ssm_dt", nil},
		{"mamba.dt_layernorm", "ssm_dt_norm", nil},
		{"mamba.b_layernorm", "ssm_b_norm", nil},
		{"mamba.c_layernorm", "ssm_c_norm", nil},
	}.And(feedForward, mambaScan, ends, attention),
	keys:   jambaKeys,
	rename: jambaName,
	vocab:  spaceless,
}

func jambaKeys(k *keys) {
	width := k.count("hidden_size")
	k.ns("attention.head_count_kv", where(every(k.layers(), k.count("attn_layer_offset"), k.count("attn_layer_period")), k.headsKV(), 0))
	k.n("ssm.conv_kernel", k.countOr("mamba_d_conv", 4))
	k.n("ssm.inner_size", k.count("mamba_expand")*width)
	k.n("ssm.state_size", k.countOr("mamba_d_state", 16))
	rank := (width + 15) / 16
	if _, auto := k.value("mamba_dt_rank").(string); !auto {
		rank = k.countOr("mamba_dt_rank", rank)
	}
	k.n("ssm.time_step_rank", rank)
	k.f("attention.layer_norm_rms_epsilon", k.numberOr("layer_norm_epsilon rms_norm_eps", 1e-6))
	k.drop("rope.freq_base", "attention.key_length", "attention.value_length")
}

// jambaName gives the one network of a layer without experts, which checkpoints have as an expert, its plain name.
func jambaName(c *config, name string) string {
	name = strings.Replace(name, ".moe.", ".feed_forward.", 1)
	if s := parse(name, nil); s.expert == 0 {
		if with := every(c.layers(), c.countOr("expert_layer_offset", 1), c.countOr("expert_layer_period", 2)); s.layer >= 0 && s.layer < len(with) && !with[s.layer] {
			return strings.Replace(name, ".experts.0.", ".", 1)
		}
	}
	return name
}

// spaceless is for vocabularies that put no space before a text where they come from tokenizer.json.
func spaceless(c *config, v *vocabulary) {
	if !c.exists("tokenizer.model") {
		noSpace(c, v)
	}
}
