package family

import "github.com/quern-llm/quern/go/convert/lang"

var qwen2moe = lang.Family{
	Arch:     "qwen2moe",
	Names:    "Qwen2MoeForCausalLM",
	Rules:    ends.And(attention, dense, mixture),
	Settings: expertSettings,
	Keys:     windowed,
}
