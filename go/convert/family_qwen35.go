package convert

var qwen35 = Family{
	Arch:     "qwen35",
	Names:    "Qwen3_5ForConditionalGeneration Qwen3_5ForCausalLM",
	Rules:    PlusOne(tiled.And(linear, predicting, ends, attention, dense)),
	Settings: linearSettings,
	Keys:     linearKeys35,
	Rename:   nextOfQwen,
}
