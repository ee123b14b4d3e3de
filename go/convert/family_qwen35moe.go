package convert

var qwen35moe = Family{
	Arch:     "qwen35moe",
	Names:    "Qwen3_5MoeForConditionalGeneration Qwen3_5MoeForCausalLM",
	Rules:    PlusOne(tiled.And(linear, predicting, ends, attention, dense, mixture)),
	Settings: expertSettings.And(linearSettings),
	Keys: func(k *Keys) {
		linearKeys35(k)
		k.Drop("feed_forward_length")
	},
	Rename: nextOfQwen,
}
