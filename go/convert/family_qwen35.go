package convert

var qwen35 = family{
	arch:     "qwen35",
	names:    "Qwen3_5ForConditionalGeneration Qwen3_5ForCausalLM",
	rules:    plusOne(tiled.And(linear, predicting, ends, attention, dense)),
	settings: linearSettings,
	keys:     linearKeys35,
	rename:   nextOfQwen,
}
