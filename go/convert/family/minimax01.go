package family

import (
	"slices"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var minimax01 = lang.Family{
	Arch:  "minimax-01",
	Names: "MiniMaxText01ForCausalLM MiniMaxM1ForCausalLM",
	Rules: lightning.And(ends, attention, dense, blockSparse),
	Keys: func(k *lang.Keys) {
		k.N("rope.dimension_count", k.CountOr("rotary_dim", k.HeadDim()))
		k.F("residual_scale", k.Number("layernorm_full_attention_alpha"))
		for _, half := range []string{"full_attention", "linear_attention", "mlp"} {
			a, b := k.Number("layernorm_"+half+"_alpha"), k.Number("layernorm_"+half+"_beta")
			if a != k.Number("layernorm_full_attention_alpha") || b != 1 {
				k.Fail("layernorm_%s_alpha and _beta are %v and %v, want one alpha for all, and 1", half, a, b)
			}
		}
		kinds := k.Numbers("attn_type_list")
		if len(kinds) != k.Layers() {
			k.Fail("attn_type_list names %d layers of %d", len(kinds), k.Layers())
		}
		every := slices.Index(kinds, 1) + 1
		for i, kind := range kinds {
			if (kind == 1) != (every > 0 && (i+1)%every == 0) {
				k.Fail("attn_type_list: layer %d is not as %s has it, every so many with attention", i, k.Arch)
			}
		}
		k.N("full_attention_interval", max(every, 1))
	},
}

// lightning is linear attention whose heads decay by constants.
var lightning = lang.Rules{
	{"self_attn.out_proj", "attn_output", nil},
	{"self_attn.output_gate", "attn_gate", nil},
	{"self_attn.norm", "attn_norm_2", nil},
}

// minimax is minimax01 as transformers has it. What multiplies the results of sublayers is in their last matrices.
var minimax = lang.Family{
	Arch:  "minimax-01",
	Names: "MiniMaxForCausalLM",
	Rules: lang.Rules{
		{"self_attn.out_proj", "attn_output", lang.Times(factor("linear_attn_beta_factor"))},
		{"self_attn.o_proj", "attn_output", lang.Times(factor("full_attn_beta_factor"))},
		{"mlp.experts.down_proj", "ffn_down_exps.weight", lang.Times(factor("mlp_beta_factor"))},
		{"block_sparse_moe.experts.*.w2", "ffn_down_exps", lang.Times(factor("mlp_beta_factor"))},
		{"self_attn.slope_rate", "", nil}, // what decays by follows from the numbers of layers and heads
		{"self_attn.query_decay", "", nil},
		{"self_attn.key_decay", "", nil},
		{"self_attn.diagonal_decay", "", nil},
	}.And(lightning, ends, attention, dense, mixture, blockSparse),
	Keys: func(k *lang.Keys) {
		rotating(k, 1)
		k.F("residual_scale", k.NumberOr("full_attn_alpha_factor", 1))
		k.F("quern.residual_scale.linear", k.NumberOr("linear_attn_alpha_factor", 1))
		k.F("quern.residual_scale.feed_forward", k.NumberOr("mlp_alpha_factor", 1))
		k.F("quern.attention.linear_norm_epsilon", 1e-6)
		k.Bs("attention.recurrent_layers", k.TypesOf("linear_attention"))
		if n := k.CountOr("sliding_window", 0); n > 0 {
			k.N("attention.sliding_window", n)
			k.Bs("attention.sliding_window_pattern", k.TypesOf("full_attention"))
		}
	},
	Fixed: lang.Fixed{{"hidden_act", "silu swish"}},
}

// factor returns a factor of config.json, which is 1 by default.
func factor(name string) func(c *hf.Config) float64 {
	return func(c *hf.Config) float64 { return c.NumberOr(name, 1) }
}
