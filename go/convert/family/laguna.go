package family

import (
	"slices"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/vocab"
)

var laguna = lang.Family{
	Arch:  "laguna",
	Names: "LagunaForCausalLM",
	Rules: lang.Rules{
		{"self_attn.g_proj", "attn_gate", nil},
		{"mlp.experts.e_score_correction_bias", "exp_probs_b.bias", nil},
	}.And(ends, attention, dense, mixture),
	Settings: expertSettings.And(lang.Settings{
		{"attention.head_count", 'n', "num_attention_heads_per_layer"},
		{"expert_weights_scale", 'f', "moe_routed_scaling_factor"},
	}),
	Keys: func(k *lang.Keys) {
		vocabSize(k)
		windowsApart(k)
		k.B("expert_weights_norm", true)
		k.Gating("sigmoid")
		k.N("leading_dense_block_count", k.Leading())
	},
	Vocab: lagunaVocab,
	Fixed: lang.Fixed{{"gating", "true per-element"}, {"moe_apply_router_weight_on_input", "false"}, {"moe_router_logit_softcapping", "0"}},
}

// lagunaVocab makes the text that ends an answer a token that ends turns. The tokenizer does not say so of any token.
func lagunaVocab(_ *hf.Config, v *vocab.Vocabulary) {
	if end := slices.Index(v.Tokens, "</assistant>"); end >= 0 {
		v.Types[end] = vocab.Control
		v.SetSpecial("eot", end)
	}
}
