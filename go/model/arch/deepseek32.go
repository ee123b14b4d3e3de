package arch

import "github.com/quern-llm/quern/go/kernel"

// deepseek32 is DeepSeek V3.2: V3, each layer of which chooses the positions that it attends to.
var deepseek32 = Arch{
	Name: "deepseek32",
	config: func(k *keys) {
		deepseek2Config(k)
		k.latentRope(false)
		k.indexes(kernel.RopeNeox)
	},
	build: deepseek2Build,
}

// glmDSA is GLM 5: the same, but from 5.2 on most layers attend to what the one before does.
var glmDSA = Arch{
	Name: "glm-dsa",
	config: func(k *keys) {
		deepseek2Config(k)
		k.latentRope(false)
		k.indexes(kernel.RopeNorm)
		indexedLike52(k)
		k.indexTypes()
	},
	build: deepseek2Build,
}

// indexedSince52 is the context of GLM 5.2, whose first files do not list which layers have an
// index: the first three, and then every fourth.
const indexedSince52 = 1 << 20

func indexedLike52(k *keys) {
	for il := range k.c.Layers {
		k.c.Layers[il].Indexed = k.c.NCtx < indexedSince52 || il < 3 || il%4 == 2
	}
}
