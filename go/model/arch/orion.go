package arch

// orion is Orion: Llama with norms that have a mean.
var orion = Arch{Name: "orion", config: starcoder2.config, build: llama.build}
