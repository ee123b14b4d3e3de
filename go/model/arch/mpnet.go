package arch

import . "github.com/quern-llm/quern/go/model/nn"

// mpnet is MPNet (Song et al. 2020), from which all-mpnet-base is: BERT with biases of scores by distance, in T5's
// buckets, which all layers share.
var mpnet = Arch{
	Name: "mpnet",
	config: func(k *Keys) {
		bert.config(k)
		k.Config.NBucket = k.Int("attention.relative_buckets_count", 4, MaxHead)
	},
	build: bert.build,
}
