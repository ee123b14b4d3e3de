package convert

import "slices"

var qwen2 = family{
	arch:  "qwen2",
	names: "Qwen2ForCausalLM Qwen2Model",
	rules: slices.Concat(ends, attention, dense),
}
