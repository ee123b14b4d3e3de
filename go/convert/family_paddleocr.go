package convert

import "slices"

var paddleocr = family{
	arch:  "paddleocr",
	names: "PaddleOCRVLForConditionalGeneration",
	rules: slices.Concat(ends, attention, dense),
	skip:  []string{"mlp_AR."},
}
