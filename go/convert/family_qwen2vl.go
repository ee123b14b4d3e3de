package convert

import "slices"

var qwen2vl = family{
	arch:  "qwen2vl",
	names: "Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration",
	rules: slices.Concat(ends, attention, dense),
}
