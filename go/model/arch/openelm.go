package arch

// openelm is OpenELM: Qwen 3, whose layers have more heads and wider feed-forwards the later they are.
var openelm = Arch{Name: "openelm", config: qwen3.config, build: qwen3.build}
