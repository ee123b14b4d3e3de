package nn

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// PerLayerEmbeddings reads the width of the embedding of a token for each layer (Gemma 3n).
func (k *Keys) PerLayerEmbeddings() {
	const name = "embedding_length_per_layer_input"
	k.Config.NPerLayer = k.IntOr(name, 0, 0, MaxEmbd)
	if k.Config.NPerLayer%kernel.Panel != 0 {
		k.Fail(name, "%d, want a multiple of %d", k.Config.NPerLayer, kernel.Panel)
	}
}

// perLayer is the buffer with the embeddings of a token for each layer, one after the other.
func (b *Builder) perLayer() kernel.Buf {
	return b.Floats("per layer", kernel.TokRows, b.Config.NPerLayer*len(b.Config.Layers))
}

// EmbedPerLayer adds to Begin the embeddings of tokens for each layer: (table + projection of the embedding) / sqrt(2).
func (b *Builder) EmbedPerLayer() {
	c := b.Config
	n, width := c.NPerLayer, c.NPerLayer*len(c.Layers)
	table := b.Table("per_layer_token_embd.weight", width, c.NVocab)
	proj := b.Matrix("per_layer_model_proj.weight", c.NEmbd, width)
	act := b.Act("embd", kernel.TokRows, c.NEmbd, proj)
	made := b.Floats("per layer projected", kernel.TokRows, width)
	b.Add(kernel.Embed{Dst: b.perLayer(), Table: table, Scale: float32(math.Sqrt(float64(n) / 2))})
	b.Add(kernel.ToAct{Act: act, Src: b.X(), Cols: c.NEmbd})
	b.Add(kernel.Matmul{
		Dst: made, Act: act, Parts: []kernel.Part{{Matrix: proj}},
		Scale: float32(1 / math.Sqrt(float64(c.NEmbd))),
	})
	b.Add(kernel.NormRows{
		Dst: b.perLayer(), Src: made, Cols: n, Segs: len(c.Layers), Kind: c.Norm, Eps: c.Eps, Scale: math.Sqrt2 / 2,
		Weight: b.Vector("per_layer_proj_norm.weight", n), Epilogue: kernel.Add,
	})
	b.Program.Begin = append(b.Program.Begin, b.Take()...)
}

// OwnEmbedding adds norm(proj(gelu(inp_gate(input)) * the layer's embedding of the token)).
func (l Layer) OwnEmbedding(norm string) Sublayer {
	return l.projectedEmbedding(func(made kernel.Buf) { l.normTo(l.X(), made, kernel.Add, norm) })
}

// projectedEmbedding calls add with the buffer of proj(gelu(inp_gate(input)) * the layer's embedding of the token).
func (l Layer) projectedEmbedding(add func(made kernel.Buf)) Sublayer {
	c := l.Config
	n := c.NPerLayer
	gate := l.Matrix("inp_gate.weight", c.NEmbd, n)
	proj := l.Matrix("proj.weight", n, c.NEmbd)
	return Sublayer{In: []kernel.Matrix{gate}, Run: func(act kernel.Act) {
		opened := l.Floats("per layer gate", kernel.TokRows, n)
		own := l.Act("per layer", kernel.TokRows, n, proj)
		l.Add(kernel.Matmul{Dst: opened, Act: act, Parts: []kernel.Part{{Matrix: gate}}})
		l.Add(kernel.Gate{Dst: l.perLayer(), DstCol: l.Index * n, Src: opened, Cols: n, Fn: c.fn(kernel.GELU, false)})
		l.Add(kernel.ToAct{Act: own, Src: l.perLayer(), SrcCol: l.Index * n, Cols: n})
		l.Add(kernel.Matmul{Dst: l.sublayerOut(), Act: own, Parts: []kernel.Part{{Matrix: proj}}})
		add(l.sublayerOut())
	}}
}
