package arch

import . "github.com/quern-llm/quern/go/model/nn"

// cogvlm is CogVLM: Llama with rotations of halves. What is seen has matrices of its own, which are not used where nothing can be
// seen. (llama.cpp has a base of rotations of 10000 whatever the file says.)
var cogvlm = Arch{
	Name: "cogvlm",
	config: func(k *Keys) {
		exaone.config(k)
		k.SenseExperts()
	},
	build: func(b *Builder) {
		if b.Config.Media && b.Config.SenseExperts {
			b.SenseLayers()
			return
		}
		llama.build(b)
	},
}
