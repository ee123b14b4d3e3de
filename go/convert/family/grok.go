package family

import (
	"math"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var grok = lang.Family{
	Arch:  "grok",
	Names: "Grok1ForCausalLM GrokForCausalLM",
	Rules: lang.Rules{
		{"pre_attn_norm", "attn_norm", nil},
		{"post_attn_norm", "attn_output_norm", nil},
		{"pre_moe_norm", "ffn_norm", nil},
		{"post_moe_norm", "post_ffw_norm", nil},
		{"in_out_embed", "token_embd", nil}, // Grok 1's names
		{".rms_norm", "attn_norm", nil},
		{"rms_norm", "output_norm", nil},
		{"rms_norm_1", "attn_output_norm", nil},
		{"rms_norm_2", "ffn_norm", nil},
		{"rms_norm_3", "layer_output_norm", nil},
		{"multi_head_attention.query", "attn_q", nil},
		{"multi_head_attention.key", "attn_k", nil},
		{"multi_head_attention.value", "attn_v", nil},
		{"multi_head_attention.linear", "attn_output", nil},
		{"router", "ffn_gate_inp", nil},
		{"moe.*.linear", "ffn_gate_exps", nil},
		{"moe.*.linear_1", "ffn_down_exps", nil},
		{"moe.*.linear_v", "ffn_up_exps", nil},
	}.And(ends, attention, dense, blockSparse),
	Settings: lang.Settings{
		{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
		{"attention.temperature_length", 'n', "attn_temperature_len"},
		{"final_logit_softcapping", 'f', "final_logit_softcapping"},
		{"embedding_scale", 'f', "embedding_multiplier_scale"},
		{"logit_scale", 'f', "output_multiplier_scale"},
	},
	Keys:   grokKeys,
	Across: ".w2.weight", // Grok 2's experts are in the files of eight machines
	Rename: func(_ *hf.Config, name string) string {
		return strings.Replace(name, "transformer.decoder_layer.", "model.layers.", 1)
	},
	Activation: "gelu_new",
}

// grokKeys sets soft caps and rotations, which config.json has outside of rope_scaling.
func grokKeys(k *lang.Keys) {
	k.F("attn_logit_softcapping", k.NumberOr("attn_logit_softcapping", 30))
	k.F("router_logit_softcapping", k.NumberOr("router_logit_softcapping", 30))
	k.F("attention.output_scale", k.NumberOr("attn_output_multiplier", 1/math.Sqrt(float64(max(k.HeadDim(), 1)))))
	switch kind := k.Text("rope_type"); kind {
	case "":
	case "yarn", "original":
		k.Set("rope.scaling.type", "yarn")
		k.F("rope.scaling.factor", k.Number("scaling_factor"))
		k.N("rope.scaling.original_context_length", k.Count("original_max_position_embeddings"))
		k.F("rope.scaling.yarn_ext_factor", k.Number("extrapolation_factor"))
		k.F("rope.scaling.yarn_attn_factor", k.Number("attn_factor"))
		k.F("rope.scaling.yarn_beta_fast", k.Number("beta_fast"))
		k.F("rope.scaling.yarn_beta_slow", k.Number("beta_slow"))
	default:
		k.Fail("rope_type is %q, want yarn or original", kind)
	}
}
