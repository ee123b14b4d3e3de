package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// exaone is EXAONE 3 and 3.5: Llama with rotations across halves of a head.
var exaone = Arch{
	Name:   "exaone",
	config: func(k *Keys) { k.Dense(kernel.RopeNeox) },
	build:  llama.build,
}

// exaonemoe is K-EXAONE: dots1 with windows in three layers of four, and no rotations in the
// fourth.
var exaonemoe = Arch{
	Name: "exaone-moe",
	config: func(k *Keys) {
		dots1Config(k)
		k.Windows(AllBut(4))
		k.RopeInWindows()
	},
	build: dots1Build,
}
