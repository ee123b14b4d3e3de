package arch

// qwen2vl is the text part of Qwen 2 and 2.5 VL. Its rotations have sections for time, height and
// width, which text has at the same position: they are plain ones.
var qwen2vl = Arch{Name: "qwen2vl", config: qwen2.config, build: qwen2.build}
