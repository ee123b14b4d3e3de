package convert

import "slices"

var qwen35 = family{
	arch:     "qwen35",
	names:    "Qwen3_5ForConditionalGeneration Qwen3_5ForCausalLM",
	rules:    plusOne(slices.Concat(tiled, linear, predicting, ends, attention, dense)),
	settings: linearSettings,
	keys:     linearKeys35,
	rename:   nextOfQwen,
}
