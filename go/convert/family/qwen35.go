package family

import "github.com/quern-llm/quern/go/convert/lang"

var qwen35 = lang.Family{
	Arch:     "qwen35",
	Names:    "Qwen3_5ForConditionalGeneration Qwen3_5ForCausalLM",
	Rules:    lang.PlusOne(tiled.And(linear, predicting, ends, attention, dense)),
	Settings: linearSettings,
	Keys:     linearKeys35,
	Rename:   nextOfQwen,
	Fixed:    scanAct,
}
