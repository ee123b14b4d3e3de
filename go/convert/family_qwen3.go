package convert

import "slices"

var qwen3 = family{
	arch:  "qwen3",
	names: "Qwen3ForCausalLM Qwen3Model",
	rules: slices.Concat(ends, attention, dense),
}
