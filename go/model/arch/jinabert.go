package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// jinaBERTv2 is jina-embeddings 2: BERT with ALiBi in place of positions, and GeGLU. Some files have
// the gate in the rows of ffn_up, and norms of queries and keys.
var jinaBERTv2 = Arch{
	Name: "jina-bert-v2",
	config: func(k *Keys) {
		k.Encoder()
		k.Config.ALiBi = true
	},
	build: func(b *Builder) {
		b.BERTLayers(Attention{QKNorm: NormRowOptional}, func(l Layer) Sublayer {
			return l.FeedForward(FeedForward{Fn: kernel.GELUErf, Fused: !l.Has("ffn_gate.weight")})
		})
	},
}

// jinaBERTv3 is jina-embeddings 3: XLM-R with rotations in place of positions. The adapters for its tasks
// are files of their own.
var jinaBERTv3 = Arch{
	Name: "jina-bert-v3",
	config: func(k *Keys) {
		k.Encoder()
		k.Rope(kernel.RopeNeox)
	},
	build: func(b *Builder) { b.BERTLayers(Attention{}, plainGELU) },
}
