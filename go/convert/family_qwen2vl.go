package convert

var qwen2vl = family{
	arch:  "qwen2vl",
	names: "Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration",
	rules: ends.And(attention, dense),
}
