package convert

import "slices"

var qwen2moe = family{
	arch:     "qwen2moe",
	names:    "Qwen2MoeForCausalLM",
	rules:    slices.Concat(ends, attention, dense, mixture),
	settings: expertSettings,
}
