package convert

var qwen2vl = Family{
	Arch:  "qwen2vl",
	Names: "Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration",
	Rules: ends.And(attention, dense),
}
