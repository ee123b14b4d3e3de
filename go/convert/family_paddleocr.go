package convert

var paddleocr = Family{
	Arch:  "paddleocr",
	Names: "PaddleOCRVLForConditionalGeneration",
	Rules: ends.And(attention, dense),
	Skip:  []string{"mlp_AR."},
}
