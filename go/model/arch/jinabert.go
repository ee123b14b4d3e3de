package arch

import "github.com/quern-llm/quern/go/kernel"

// jinaBERTv2 is jina-embeddings 2: BERT with ALiBi in place of positions, and GeGLU. Some files have
// the gate in the rows of ffn_up, and norms of queries and keys.
var jinaBERTv2 = Arch{
	Name: "jina-bert-v2",
	config: func(k *keys) {
		k.encoder()
		k.c.ALiBi = true
	},
	build: func(b *builder) {
		b.bertLayers(attention{norm: normRowMaybe}, func(l layer) sublayer {
			return l.feedForward(feedForward{fn: kernel.GELUErf, fused: !l.has("ffn_gate.weight")})
		})
	},
}

// jinaBERTv3 is jina-embeddings 3: XLM-R with rotations in place of positions. The adapters for its tasks
// are files of their own.
var jinaBERTv3 = Arch{
	Name: "jina-bert-v3",
	config: func(k *keys) {
		k.encoder()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) { b.bertLayers(attention{}, plainGELU) },
}
