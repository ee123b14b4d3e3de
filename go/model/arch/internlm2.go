package arch

// internlm2 is InternLM 2 to 3: Llama.
var internlm2 = Arch{Name: "internlm2", config: llama.config, build: llama.build}

// xverse is XVERSE: Llama.
var xverse = Arch{Name: "xverse", config: llama.config, build: llama.build}
