package family

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/vocab"
)

var museglimmer = lang.Family{
	Arch:  "muse-glimmer",
	Names: "MuseGlimmerForConditionalGeneration MuseGlimmerForCausalLM",
	Rules: lang.Rules{
		{"self_attn.q_proj", "attn_q", lang.Permute((*hf.Config).Heads)},
		{"self_attn.k_proj", "attn_k", lang.Permute((*hf.Config).HeadsKV)},
		{"self_attn.gate_proj", "attn_gate", nil},
		{"input_layernorm", "attn_norm", lang.AddOne},
		{"post_attention_layernorm", "post_attention_norm", lang.AddOne},
		{"pre_feedforward_layernorm", "ffn_norm", lang.AddOne},
		{"post_feedforward_layernorm", "post_ffw_norm", lang.AddOne},
	}.And(ends, attention, dense),
	Settings: lang.Settings{
		{"final_logit_softcapping", 'f', "final_logit_softcapping"},
		{"logit_scale", 'f', "output_multiplier"},
		{"attention.sliding_window", 'n', "sliding_window"},
	},
	Keys:  glimmerKeys,
	Extra: glimmerNorms,
	Vocab: func(_ *hf.Config, v *vocab.Vocabulary) { v.SetSpecial("eot", slices.Index(v.Tokens, "<|eot|>")) },
}

// glimmerKeys sets which layers have a window. Those rotate, and the others do not.
func glimmerKeys(k *lang.Keys) {
	windows := k.TypesOf("sliding_attention")
	k.Bs("attention.sliding_window_pattern", windows)
	if rotates, base := layerBases(k); rotates != nil {
		k.F("rope.freq_base", base)
		if !slices.Equal(rotates, windows) {
			k.Fail("layer_rope_theta: want a base in layers with a window, and 0 in the others")
		}
	}
	if eps := k.NumberOr("post_norm_eps", 0); eps > 0 {
		k.F("quern.attention.post_norm_epsilon", eps)
	}
}

// glimmerNorms makes the norms of queries and keys, which the model has without weights. That of queries has a factor.
func glimmerNorms(c *hf.Config) map[string]lang.View {
	queries, keys := make([]float32, c.HeadDim()), make([]float32, c.HeadDim())
	scale := float32(c.NumberOr("qk_scale_factor", 1))
	for i := range queries {
		queries[i], keys[i] = scale, 1
	}
	all := map[string]lang.View{}
	for il := range c.Layers() {
		all[fmt.Sprintf("blk.%d.attn_q_norm.weight", il)] = lang.Constant(queries)
		all[fmt.Sprintf("blk.%d.attn_k_norm.weight", il)] = lang.Constant(keys)
	}
	return all
}
