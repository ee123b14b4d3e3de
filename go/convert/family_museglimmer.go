package convert

import (
	"fmt"
	"slices"
)

var museglimmer = family{
	arch:  "muse-glimmer",
	names: "MuseGlimmerForConditionalGeneration MuseGlimmerForCausalLM",
	rules: rules{
		{"self_attn.q_proj", "attn_q", permute((*config).heads)},
		{"self_attn.k_proj", "attn_k", permute((*config).headsKV)},
		{"self_attn.gate_proj", "attn_gate", nil},
		{"input_layernorm", "attn_norm", addOne},
		{"post_attention_layernorm", "post_attention_norm", addOne},
		{"pre_feedforward_layernorm", "ffn_norm", addOne},
		{"post_feedforward_layernorm", "post_ffw_norm", addOne},
	}.And(ends, attention, dense),
	settings: settings{
		{"final_logit_softcapping", 'f', "final_logit_softcapping"},
		{"logit_scale", 'f', "output_multiplier"},
		{"attention.sliding_window", 'n', "sliding_window"},
	},
	keys:  func(k *keys) { k.bs("attention.sliding_window_pattern", k.typesOf("sliding_attention")) },
	extra: glimmerNorms,
	vocab: func(_ *config, v *vocabulary) { v.setSpecial("eot", slices.Index(v.tokens, "<|eot|>")) },
}

// glimmerNorms are norms of heads of queries and keys, which the model has without weights, with the factor of queries.
func glimmerNorms(c *config) map[string]view {
	queries, keys := make([]float32, c.headDim()), make([]float32, c.headDim())
	scale := float32(c.numberOr("qk_scale_factor", 1))
	for i := range queries {
		queries[i], keys[i] = scale, 1
	}
	all := map[string]view{}
	for il := range c.layers() {
		all[fmt.Sprintf("blk.%d.attn_q_norm.weight", il)] = constant(queries)
		all[fmt.Sprintf("blk.%d.attn_k_norm.weight", il)] = constant(keys)
	}
	return all
}
