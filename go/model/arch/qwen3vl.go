package arch

// qwen3vl is the text part of Qwen 3 VL. Its rotations have sections for time,
// height and width, which text has at the same position: they are plain ones.
var qwen3vl = Arch{Name: "qwen3vl", config: qwen3.config, build: qwen3.build}

// qwen3vlmoe is the text part of Qwen 3 VL with experts.
var qwen3vlmoe = Arch{Name: "qwen3vlmoe", config: qwen3moe.config, build: qwen3moe.build}
