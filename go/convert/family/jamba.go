package family

import (
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/vocab"
)

var jamba = lang.Family{
	Arch:  "jamba",
	Names: "JambaForCausalLM",
	Rules: lang.Rules{
		{"final_layernorm", "output_norm", nil},
		{"pre_ff_layernorm", "ffn_norm", nil},
		{"pre_moe_layernorm", "ffn_norm", nil},
		{"feed_forward.experts.*.gate_proj", "ffn_gate_exps", nil},
		{"feed_forward.experts.*.up_proj", "ffn_up_exps", nil},
		{"feed_forward.experts.*.down_proj", "ffn_down_exps", nil},
		{"mamba.A_log", "ssm_a", lang.NegExp},
		{"mamba.D", "ssm_d", nil},
		{"mamba.x_proj", "ssm_x", nil},
		{"mamba.dt_proj", "ssm_dt", nil},
		{"mamba.dt_layernorm", "ssm_dt_norm", nil},
		{"mamba.b_layernorm", "ssm_b_norm", nil},
		{"mamba.c_layernorm", "ssm_c_norm", nil},
	}.And(feedForward, mambaScan, ends, attention),
	Keys:   jambaKeys,
	Rename: jambaName,
	Vocab:  spaceless,
	Fixed:  scanAct,
}

func jambaKeys(k *lang.Keys) {
	width := k.Count("hidden_size")
	attends := lang.Every(k.Layers(), k.Count("attn_layer_offset"), k.Count("attn_layer_period"))
	k.Ns("attention.head_count_kv", lang.Where(attends, k.HeadsKV(), 0))
	k.N("ssm.conv_kernel", k.CountOr("mamba_d_conv", 4))
	k.N("ssm.inner_size", k.Count("mamba_expand")*width)
	k.N("ssm.state_size", k.CountOr("mamba_d_state", 16))
	rank := (width + 15) / 16
	if _, auto := k.Value("mamba_dt_rank").(string); !auto {
		rank = k.CountOr("mamba_dt_rank", rank)
	}
	k.N("ssm.time_step_rank", rank)
	k.F("attention.layer_norm_rms_epsilon", k.NumberOr("layer_norm_epsilon rms_norm_eps", 1e-6))
	k.Drop("rope.freq_base", "attention.key_length", "attention.value_length")
}

// jambaName gives the only network of a layer without experts its plain name. Checkpoints call it an expert.
func jambaName(c *hf.Config, name string) string {
	name = strings.Replace(name, ".moe.", ".feed_forward.", 1)
	s := lang.Parse(name, nil)
	routed := lang.Every(c.Layers(), c.CountOr("expert_layer_offset", 1), c.CountOr("expert_layer_period", 2))
	if s.Expert == 0 && s.Layer >= 0 && s.Layer < len(routed) && !routed[s.Layer] {
		return strings.Replace(name, ".experts.0.", ".", 1)
	}
	return name
}

// spaceless is noSpace for tokenizers that come from tokenizer.json.
func spaceless(c *hf.Config, v *vocab.Vocabulary) {
	if !c.Exists("tokenizer.model") {
		noSpace(c, v)
	}
}
