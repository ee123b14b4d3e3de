package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// deepseekOCR is the text part of DeepSeek OCR: DeepSeek's first model with experts, which are weighed as the file
// says, and with rotations across halves of a head.
var deepseekOCR = Arch{
	Name: "deepseek2-ocr",
	config: func(k *Keys) {
		deepseek.config(k)
		k.Rope(kernel.RopeNeox)
		k.ExpertWeights(kernel.GateSoftmax, false)
	},
	build: deepseek.build,
}
