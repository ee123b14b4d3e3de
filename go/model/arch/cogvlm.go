package arch

// cogvlm is CogVLM's part that reads and writes text: Llama with rotations of halves. The matrices for what comes from
// images are not used. (llama.cpp has a base of rotations of 10000 whatever the file says.)
var cogvlm = Arch{
	Name:   "cogvlm",
	config: exaone.config,
	build:  llama.build,
}
