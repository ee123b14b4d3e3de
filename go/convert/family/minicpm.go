package family

import (
	"math"

	"github.com/quern-llm/quern/go/convert/lang"
)

var minicpm = lang.Family{
	Arch:  "minicpm",
	Names: "MiniCPMForCausalLM",
	Rules: ends.And(pairs, dense),
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		miniCPMScales(k)
	},
}

var minicpm3 = lang.Family{
	Arch:  "minicpm3",
	Names: "MiniCPM3ForCausalLM",
	Rules: lang.Rules{{"self_attn.kv_b_proj", "attn_kv_b", nil}}.And(latent, ends, attention, dense),
	Settings: lang.Settings{
		{"attention.q_lora_rank", 'n', "q_lora_rank"},
		{"attention.kv_lora_rank", 'n', "kv_lora_rank"},
		{"rope.dimension_count", 'n', "qk_rope_head_dim"},
	},
	Keys: func(k *lang.Keys) {
		vocabSize(k)
		k.N("attention.key_length", k.Count("qk_nope_head_dim")+k.Count("qk_rope_head_dim"))
		miniCPMScales(k)
		k.Drop("attention.value_length", "rope.scaling.type")
		if v := k.CountOr("v_head_dim", 0); v > 0 && v != k.Count("hidden_size")/max(k.Heads(), 1) {
			k.N("attention.value_length", v)
		}
	},
}

// miniCPMScales sets the factors of embeddings, residuals and logits.
func miniCPMScales(k *lang.Keys) {
	k.F("embedding_scale", k.Number("scale_emb"))
	k.F("residual_scale", k.Number("scale_depth")/math.Sqrt(float64(max(k.Layers(), 1))))
	k.F("logit_scale", float64(k.Count("hidden_size"))/float64(max(k.Count("dim_model_base"), 1)))
}
