package convert

var qwen35moe = family{
	arch:     "qwen35moe",
	names:    "Qwen3_5MoeForConditionalGeneration Qwen3_5MoeForCausalLM",
	rules:    plusOne(tiled.And(linear, predicting, ends, attention, dense, mixture)),
	settings: expertSettings.And(linearSettings),
	keys: func(k *keys) {
		linearKeys35(k)
		k.drop("feed_forward_length")
	},
	rename: nextOfQwen,
}
