package convert

var paddleocr = family{
	arch:  "paddleocr",
	names: "PaddleOCRVLForConditionalGeneration",
	rules: ends.And(attention, dense),
	skip:  []string{"mlp_AR."},
}
