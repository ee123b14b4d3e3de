package arch

import . "github.com/quern-llm/quern/go/model/nn"

// codeshell is CodeShell: StarCoder 2 under another name. Some files have the embedding as output.weight alone.
var codeshell = Arch{
	Name: "codeshell",
	config: func(k *Keys) {
		starcoder2.config(k)
		k.OutputEmbeds()
	},
	build: starcoder2.build,
}
