package arch

import . "github.com/quern-llm/quern/go/model/nn"

// What files of Baichuan do not say: the model of 13 billion parameters, which has this number of layers,
// has ALiBi.
const baichuanALiBi = 40

// baichuan is Baichuan 1 and 2: Llama, the large one with ALiBi in place of rotations.
var baichuan = Arch{
	Name: "baichuan",
	config: func(k *Keys) {
		llama.config(k)
		if len(k.Config.Layers) == baichuanALiBi {
			k.NoRope()
			k.Config.ALiBi = true
		}
	},
	build: llama.build,
}
