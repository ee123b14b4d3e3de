package convert

import (
	"math"
)

var minicpm = family{
	arch:  "minicpm",
	names: "MiniCPMForCausalLM",
	rules: ends.And(pairs, dense),
	keys: func(k *keys) {
		commonKeys(k)
		miniCPMScales(k)
	},
	extra: phi3Factors,
}

var minicpm3 = family{
	arch:  "minicpm3",
	names: "MiniCPM3ForCausalLM",
	rules: rules{{"self_attn.kv_b_proj", "attn_kv_b", nil}}.And(latent, ends, attention, dense),
	settings: settings{
		{"attention.q_lora_rank", 'n', "q_lora_rank"},
		{"attention.kv_lora_rank", 'n', "kv_lora_rank"},
		{"rope.dimension_count", 'n', "qk_rope_head_dim"},
	},
	keys: func(k *keys) {
		vocabSize(k)
		k.n("attention.key_length", k.count("qk_nope_head_dim")+k.count("qk_rope_head_dim"))
		miniCPMScales(k)
		k.drop("attention.value_length", "rope.scaling.type")
	},
	extra: func(c *config) map[string]view { return longFactors(c, c.count("qk_rope_head_dim")) },
}

// miniCPMScales are factors of embeddings, residuals and logits.
func miniCPMScales(k *keys) {
	k.f("embedding_scale", k.number("scale_emb"))
	k.f("residual_scale", k.number("scale_depth")/math.Sqrt(float64(max(k.layers(), 1))))
	k.f("logit_scale", float64(k.count("hidden_size"))/float64(max(k.count("dim_model_base"), 1)))
}
