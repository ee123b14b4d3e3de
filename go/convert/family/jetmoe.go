package family

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var jetmoe = lang.Family{
	Arch:  "jetmoe",
	Names: "JetMoeForCausalLM",
	Rules: lang.Rules{
		{"self_attention.experts.router.layer", "attn_gate_inp", nil},
		{"self_attention.experts.input_linear", "attn_q_exps", nil},
		{"self_attention.experts.output_linear", "attn_output_exps", nil},
		{"self_attention.experts.bias", "attn_output_exps.bias", ofEachExpert},
		{"self_attention.kv_proj", "attn_k attn_v", lang.Halves},
		{"mlp.router.layer", "ffn_gate_inp", nil},
		{"mlp.input_linear", "ffn_gate_exps ffn_up_exps", lang.Halves},
		{"mlp.output_linear", "ffn_down_exps", nil},
		{"mlp.bias", "ffn_down_exps.bias", ofEachExpert},
	}.And(ends, attention, dense),
	Settings: lang.Settings{
		{"attention.key_length", 'n', "kv_channels"},
		{"attention.value_length", 'n', "kv_channels"},
		{"rope.dimension_count", 'n', "kv_channels"},
	},
	Keys: func(k *lang.Keys) {
		vocabSize(k)
		k.N("attention.head_count", k.HeadsKV()*k.Count("num_experts_per_tok"))
	},
	Tied: true,
}

// ofEachExpert repeats a vector for each expert.
var ofEachExpert = lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
	return v.Strided(0, lang.Dim{uint64(c.Experts()), 0}, lang.Dim{v.Elems(), 1}), nil
})
