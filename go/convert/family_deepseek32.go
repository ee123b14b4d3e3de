package convert

var deepseek32 = family{
	arch:     "deepseek32",
	names:    "DeepseekV32ForCausalLM",
	rules:    indexed.And(predicting, latent, ends, attention, dense, mixture),
	settings: latentSettings,
	keys:     func(k *keys) { latentKeys(k); indexKeys(k); further(k) },
}

var glmDSA = family{
	arch:     "glm-dsa",
	names:    "GlmMoeDsaForCausalLM",
	rules:    indexed.And(predicting, latent, ends, attention, dense, mixture),
	settings: latentSettings,
	keys: func(k *keys) {
		latentKeys(k)
		indexKeys(k)
		k.n("rope.dimension_count", int(float64(k.count("qk_rope_head_dim"))*k.partial(1)))
		if k.has("indexer_types") {
			own := []bool{}
			for _, kind := range k.texts("indexer_types") {
				own = append(own, kind == "full")
			}
			k.bs("attention.indexer.types", own)
		}
		further(k)
	},
	vocab: glmVocab,
}
