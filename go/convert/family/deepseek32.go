package family

import "github.com/quern-llm/quern/go/convert/lang"

var deepseek32 = lang.Family{
	Arch:     "deepseek32",
	Names:    "DeepseekV32ForCausalLM",
	Rules:    indexed.And(predicting, latent, ends, attention, dense, mixture),
	Settings: latentSettings,
	Keys:     func(k *lang.Keys) { latentKeys(k); indexKeys(k); further(k) },
	Fixed:    lang.Fixed{{"layer_types", "indexed_attention"}},
}

var glmDSA = lang.Family{
	Arch:     "glm-dsa",
	Names:    "GlmMoeDsaForCausalLM",
	Rules:    indexed.And(predicting, latent, ends, attention, dense, mixture),
	Settings: latentSettings,
	Keys: func(k *lang.Keys) {
		latentKeys(k)
		indexKeys(k)
		k.N("rope.dimension_count", int(float64(k.Count("qk_rope_head_dim"))*k.Partial(1)))
		if k.Has("indexer_types") {
			own := []bool{}
			for _, kind := range k.Texts("indexer_types") {
				own = append(own, kind == "full")
			}
			k.Bs("attention.indexer.types", own)
		}
		further(k)
	},
	Vocab: glmVocab,
	Fixed: lang.Fixed{{"layer_types", "indexed_attention"}},
}
