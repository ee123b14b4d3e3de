package arch

import . "github.com/quern-llm/quern/go/model/nn"

// paddleocr is PaddleOCR-VL: ERNIE 4.5 with rotations across halves of a head, in sections for time, height and width of
// pictures.
var paddleocr = Arch{
	Name: "paddleocr",
	config: func(k *Keys) {
		qwen2.config(k)
		k.Sections(false)
	},
	build: llama.build,
}
