package arch

// paddleocr is the text part of PaddleOCR-VL: ERNIE 4.5 with rotations across halves of a head.
var paddleocr = Arch{Name: "paddleocr", config: qwen2.config, build: llama.build}
