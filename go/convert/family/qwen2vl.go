package family

import "github.com/quern-llm/quern/go/convert/lang"

var qwen2vl = lang.Family{
	Arch:  "qwen2vl",
	Names: "Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration",
	Rules: ends.And(attention, dense),
	Keys:  windowed,
}
