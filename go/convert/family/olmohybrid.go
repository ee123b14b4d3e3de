package family

import (
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var olmoHybrid = lang.Family{
	Arch:  "olmo_hybrid",
	Names: "OlmoHybridForCausalLM",
	Rules: lang.Rules{
		{"linear_attn.q_proj linear_attn.k_proj linear_attn.v_proj", "attn_qkv", lang.Then(joined, tileValues)},
		{"linear_attn.q_conv1d.weight linear_attn.k_conv1d.weight linear_attn.v_conv1d.weight", "ssm_conv1d.weight",
			lang.Then(joined, lang.Squeeze, tileValues)},
		{"linear_attn.g_proj", "attn_gate", tile(0, valueDim)},
		{"linear_attn.a_proj", "ssm_alpha", tile(0, headOne)},
		{"linear_attn.b_proj", "ssm_beta", tile(0, headOne)},
		{"linear_attn.o_norm", "ssm_norm", nil},
		{"linear_attn.o_proj", "ssm_out", tile(1, valueDim)},
		{"attention_layer_norm", "attn_norm", nil},
		{"feedforward_layer_norm", "ffn_norm", nil},
		{"post_attention_layernorm", "ffn_norm", nil},
		{"after_attention", "post_attention_norm", nil},
		{"post_feedforward_layernorm", "post_ffw_norm", nil},
	}.And(tiled, ends, attention, dense),
	Settings: linearSettings,
	Keys: func(k *lang.Keys) {
		k.N("ssm.inner_size", valueDim(k.Config)*valueHeads(k.Config))
		k.Bs("attention.recurrent_layers", k.TypesOf("linear_attention"))
		if k.FlagOr("linear_allow_neg_eigval", true) {
			k.F("quern.ssm.beta_scale", 2)
		}
	},
	Rename: olmoHybridName,
	Fixed:  scanAct,
}

// olmoHybridName tells the norm after attention from the one before the feed-forward of the other layers, which
// checkpoints call the same.
func olmoHybridName(c *hf.Config, name string) string {
	rest, ok := strings.CutPrefix(name, "model.layers.")
	number, tail, _ := strings.Cut(rest, ".")
	il, err := strconv.Atoi(number)
	if attends := c.TypesOf("full_attention"); !ok || err != nil || il < 0 || il >= len(attends) || !attends[il] {
		return name
	}
	switch tail {
	case "post_attention_layernorm.weight", "feedforward_layer_norm.weight":
		return "model.layers." + number + ".after_attention.weight"
	}
	return name
}

// joined puts tensors one after the other.
func joined(_ *hf.Config, in []lang.View) ([]lang.View, error) {
	v, err := lang.Joined(in...)
	return []lang.View{v}, err
}
