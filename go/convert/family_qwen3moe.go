package convert

import "slices"

var qwen3moe = family{
	arch:     "qwen3moe",
	names:    "Qwen3MoeForCausalLM",
	rules:    slices.Concat(ends, attention, dense, mixture),
	settings: expertSettings,
}
