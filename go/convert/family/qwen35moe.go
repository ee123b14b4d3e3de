package family

import "github.com/quern-llm/quern/go/convert/lang"

var qwen35moe = lang.Family{
	Arch:     "qwen35moe",
	Names:    "Qwen3_5MoeForConditionalGeneration Qwen3_5MoeForCausalLM",
	Rules:    lang.PlusOne(tiled.And(linear, predicting, ends, attention, dense, mixture)),
	Settings: expertSettings.And(linearSettings),
	Keys: func(k *lang.Keys) {
		linearKeys35(k)
		k.Drop("feed_forward_length")
	},
	Rename: nextOfQwen,
	Fixed:  scanAct,
}
