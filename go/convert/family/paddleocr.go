package family

import "github.com/quern-llm/quern/go/convert/lang"

var paddleocr = lang.Family{
	Arch:  "paddleocr",
	Names: "PaddleOCRVLForConditionalGeneration",
	Rules: ends.And(attention, dense),
	Skip:  []string{"mlp_AR."},
}
