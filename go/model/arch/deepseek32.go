package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// deepseek32 is DeepSeek V3.2: V3, each layer of which chooses the positions that it attends to.
var deepseek32 = Arch{
	Name: "deepseek32",
	config: func(k *Keys) {
		deepseek2Config(k)
		k.LatentRope(false)
		k.Indexer(kernel.RopeNeox)
	},
	build: deepseek2Build,
}

// glmDSA is GLM 5: the same, but from 5.2 on most layers attend to what the one before does.
var glmDSA = Arch{
	Name: "glm-dsa",
	config: func(k *Keys) {
		deepseek2Config(k)
		k.LatentRope(false)
		k.Indexer(kernel.RopeNorm)
		indexedLike52(k)
		k.IndexerTypes()
	},
	build: deepseek2Build,
}

// indexedSince52 is the context of GLM 5.2, whose first files do not list which layers have an
// index: the first three, and then every fourth.
const indexedSince52 = 1 << 20

func indexedLike52(k *Keys) {
	for il := range k.Config.Layers {
		k.Config.Layers[il].Indexed = k.Config.NCtx < indexedSince52 || il < 3 || il%4 == 2
	}
}
