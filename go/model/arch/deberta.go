package arch

import . "github.com/quern-llm/quern/go/model/nn"

// deberta is DeBERTa (He et al. 2021), versions 1, 2 and 3: BERT whose scores depend on distances by products with queries
// and keys. Most have no table of positions. The largest of version 2 have a convolution beside the first layer.
var deberta = Arch{
	Name: "deberta",
	config: func(k *Keys) {
		k.Encoder()
		k.AttnScale()
		k.Distances()
		k.Convolution()
		_, k.Config.Positions = k.File.Tensor("position_embd.weight")
	},
	build: bert.build,
}
