package arch

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// perLayer reads how many numbers of each token a layer has of its own.
func (k *keys) perLayer() {
	const name = "embedding_length_per_layer_input"
	k.c.NPerLayer = k.intOr(name, 0, 0, maxEmbd)
	if k.c.NPerLayer%kernel.Panel != 0 {
		k.fail(name, "%d, want a multiple of %d", k.c.NPerLayer, kernel.Panel)
	}
}

// perLayer has the embeddings of a token for each layer, one after the other.
func (b *builder) perLayer() kernel.Buf {
	return b.floats("per layer", kernel.TokRows, b.cfg.NPerLayer*len(b.cfg.Layers))
}

// embedPerLayer adds to Begin the embeddings of tokens for each layer: the mean, over the root of
// 2 instead of 2, of what a table has and of a projection of the model's embedding.
func (b *builder) embedPerLayer() {
	c := b.cfg
	n, width := c.NPerLayer, c.NPerLayer*len(c.Layers)
	table := b.table("per_layer_token_embd.weight", width, c.NVocab)
	proj := b.matrix("per_layer_model_proj.weight", c.NEmbd, width)
	act := b.act("embd", kernel.TokRows, c.NEmbd, proj)
	made := b.floats("per layer projected", kernel.TokRows, width)
	b.add(kernel.Embed{Dst: b.perLayer(), Table: table, Scale: float32(math.Sqrt(float64(n) / 2))})
	b.add(kernel.ToAct{Act: act, Src: b.x(), Cols: c.NEmbd})
	b.add(kernel.Matmul{Dst: made, Act: act, Parts: []kernel.Part{{Matrix: proj}}, Scale: float32(1 / math.Sqrt(float64(c.NEmbd)))})
	b.add(kernel.NormRows{
		Dst: b.perLayer(), Src: made, Cols: n, Segs: len(c.Layers), Kind: c.Norm, Eps: c.Eps, Scale: math.Sqrt2 / 2,
		Weight: b.vector("per_layer_proj_norm.weight", n), Epilogue: kernel.Add,
	})
	b.p.Begin = append(b.p.Begin, b.take()...)
}

// ownEmbedding adds norm(proj(gelu(inp_gate(input)) * the layer's embedding of the token)).
func (l layer) ownEmbedding(norm string) sublayer {
	return l.projectedEmbedding(func(made kernel.Buf) { l.normTo(l.x(), made, kernel.Add, norm) })
}

// projectedEmbedding gives add proj(gelu(inp_gate(input)) * the layer's embedding of the token).
func (l layer) projectedEmbedding(add func(made kernel.Buf)) sublayer {
	c := l.cfg
	n := c.NPerLayer
	gate := l.matrix("inp_gate.weight", c.NEmbd, n)
	proj := l.matrix("proj.weight", n, c.NEmbd)
	return sublayer{in: []kernel.Matrix{gate}, run: func(act kernel.Act) {
		opened := l.floats("per layer gate", kernel.TokRows, n)
		own := l.act("per layer", kernel.TokRows, n, proj)
		l.add(kernel.Matmul{Dst: opened, Act: act, Parts: []kernel.Part{{Matrix: gate}}})
		l.add(kernel.Gate{Dst: l.perLayer(), DstCol: l.il * n, Src: opened, Cols: n, Fn: kernel.GELU})
		l.add(kernel.ToAct{Act: own, Src: l.perLayer(), SrcCol: l.il * n, Cols: n})
		l.add(kernel.Matmul{Dst: l.sublayerOut(), Act: own, Parts: []kernel.Part{{Matrix: proj}}})
		add(l.sublayerOut())
	}}
}
