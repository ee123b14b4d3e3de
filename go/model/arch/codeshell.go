package arch

// codeshell is CodeShell: StarCoder 2 under another name.
var codeshell = Arch{Name: "codeshell", config: starcoder2.config, build: starcoder2.build}
