package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// altupStreams is the streams of the residual in AltUp (Baykal et al. 2023). The first is the active
// one: layers compute with it, and how far it was predicted wrongly corrects the others.
const altupStreams = 4

// streams is the buffer of the streams, one after the other.
func (b *Builder) streams() kernel.Buf {
	return b.Floats("streams", kernel.TokRows, altupStreams*b.Config.NEmbd)
}

// plain stores or adds scale times NEmbd columns.
func (b *Builder) plain(dst kernel.Buf, to kernel.Epilogue, scale float32, src kernel.Buf) {
	b.Add(kernel.NormRows{
		Dst: dst, Src: src, Cols: b.Config.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: scale, Epilogue: to,
	})
}

// altupMatrix returns the projection of a stream; the active one has none.
func (b *Builder) altupMatrix(name string, stream int) kernel.Matrix {
	n := b.Config.NEmbd
	return must(b.weights.Nth(name, n, n, altupStreams-1, stream-1))
}

// Spread makes the streams of the embedding: itself, and projections of it, scaled to its length.
func (b *Builder) Spread() {
	n := b.Config.NEmbd
	b.plain(b.streams(), kernel.Store, 1, b.X())
	for i := 1; i < altupStreams; i++ {
		m := b.altupMatrix("altup_proj.weight", i)
		act := b.Act("embd", kernel.TokRows, n, m)
		b.Add(kernel.ToAct{Act: act, Src: b.X(), Cols: n})
		b.Add(kernel.Matmul{Dst: b.streams(), Act: act, Parts: []kernel.Part{{Matrix: m, Col: i * n}}})
		b.Add(kernel.Match{Dst: b.streams(), DstCol: i * n, Src: b.X(), Cols: n})
	}
	b.Program.Begin = append(b.Program.Begin, b.Take()...)
}

// Merge puts the mean of the streams into x, after the last layer: of the active one, and of projections of the others,
// scaled to its length.
func (b *Builder) Merge() {
	n := b.Config.NEmbd
	b.plain(b.X(), kernel.Store, 1, b.streams())
	for i := 1; i < altupStreams; i++ {
		m := b.altupMatrix("altup_unembd_proj.weight", i)
		act, made := b.Act("embd", kernel.TokRows, n, m), b.Floats("sublayer", kernel.TokRows, n)
		b.Add(kernel.ToAct{Act: act, Src: b.streams(), SrcCol: i * n, Cols: n})
		b.Add(kernel.Matmul{Dst: made, Act: act, Parts: []kernel.Part{{Matrix: m}}})
		b.Add(kernel.Match{Dst: made, Src: b.streams(), Cols: n})
		b.plain(b.X(), kernel.Add, 1, made)
	}
	b.plain(b.X(), kernel.Store, 1.0/altupStreams, b.X())
	if last := len(b.Program.Layers) - 1; last >= 0 {
		b.Program.Layers[last] = append(b.Program.Layers[last], b.Take()...)
	}
}

// coefficients returns n numbers per token, a product with tanh(router(norm(src))).
func (l Layer) coefficients(src kernel.Buf, name string, n int, bias []float32) kernel.Buf {
	c := l.Config
	router := l.Matrix("altup_router.weight", c.NEmbd, altupStreams)
	coef := l.Matrix(name+".weight", altupStreams, n)
	act := l.Act("router", kernel.TokRows, c.NEmbd, router)
	modes, modesAct := l.Floats("modes", kernel.TokRows, altupStreams),
		l.Act("modes", kernel.TokRows, altupStreams, coef)
	dst := l.Floats("coefficients", kernel.TokRows, n)
	l.Add(l.Norm(act, src, kernel.TokRows, "altup_router_norm"))
	l.Add(kernel.Matmul{
		Dst: modes, Act: act, Parts: []kernel.Part{{Matrix: router}}, Scale: 1 / float32(c.NEmbd), Softcap: 1,
	})
	l.Add(kernel.ToAct{Act: modesAct, Src: modes, Cols: altupStreams})
	l.Add(kernel.Matmul{Dst: dst, Act: modesAct, Parts: []kernel.Part{{Matrix: coef, Bias: bias}}})
	return dst
}

// Predict adds to each stream a weighted sum of all, and puts the active one into x.
func (l Layer) Predict() {
	by := l.coefficients(l.streams(), "altup_predict_coef", altupStreams*altupStreams, nil)
	l.Add(kernel.Mix{
		Dst: l.streams(), Src: l.streams(), Weights: by, Cols: l.Config.NEmbd, Segs: altupStreams,
		SrcSegs: altupStreams,
	})
	l.plain(l.X(), kernel.Store, 1, l.streams())
}

// Correct adds to each stream a multiple, near 1, of the difference between x and the active stream.
func (l Layer) Correct() {
	ones := l.weights.Floats("altup ones", kernel.Panel)
	copy(ones, slices.Repeat([]float32{1}, len(ones)))
	by := l.coefficients(l.X(), "altup_correct_coef", altupStreams, ones)
	l.plain(l.X(), kernel.Add, -1, l.streams())
	l.Add(kernel.Mix{
		Dst: l.streams(), Src: l.X(), Weights: by, Cols: l.Config.NEmbd, Segs: altupStreams, SrcSegs: 1,
	})
}

// StreamEmbedding adds to the other streams the layer's embedding of the token, gated by the active stream.
func (l Layer) StreamEmbedding() {
	c := l.Config
	h := l.projectedEmbedding(func(made kernel.Buf) {
		for i := 1; i < altupStreams; i++ {
			l.Add(kernel.NormRows{
				Dst: l.streams(), DstCol: i * c.NEmbd, Src: made, Cols: c.NEmbd, Segs: 1, Kind: c.Norm, Eps: c.Eps,
				Scale:  1,
				Weight: l.Vector("post_norm.weight", c.NEmbd), Epilogue: kernel.Add,
			})
		}
	})
	act := l.Act("embd", kernel.TokRows, c.NEmbd, h.In...)
	l.Add(kernel.Norm{
		Act: act, Src: l.streams(), Cols: c.NEmbd, Kind: kernel.NoNorm,
		Weight: l.Vector("altup_correct_scale.weight", c.NEmbd),
	})
	h.Run(act)
}

// LaurelRank reads the rank of Laurel of its tensors, since no key says it.
func (k *Keys) LaurelRank() {
	t, ok := k.File.Tensor("blk.0.laurel_l.weight")
	switch {
	case !ok: // which is said later
	case len(t.Dims) != 2 || t.Dims[1] == 0 || t.Dims[1] > MaxEmbd || t.Dims[1]%kernel.Panel != 0:
		k.Check(fmt.Errorf("tensor %q: shape %v, want rows that are a multiple of %d", t.Name, t.Dims, kernel.Panel))
	default:
		k.Config.NLaurel = int(t.Dims[1])
	}
}

// Laurel is input + norm(right(left(input))), a learned augmented residual layer in parallel with attention. The result
// stays in a buffer until AddLaurel.
func (l Layer) Laurel() Sublayer {
	n, rank := l.Config.NEmbd, l.Config.NLaurel
	left := l.Matrix("laurel_l.weight", n, rank)
	right := l.Matrix("laurel_r.weight", rank, n)
	return Sublayer{In: []kernel.Matrix{left}, Run: func(act kernel.Act) {
		low, lowAct := l.Floats("laurel low", kernel.TokRows, rank), l.Act("laurel low", kernel.TokRows, rank, right)
		l.Add(kernel.Matmul{Dst: low, Act: act, Parts: []kernel.Part{{Matrix: left}}})
		l.Add(kernel.ToAct{Act: lowAct, Src: low, Cols: rank})
		l.Add(kernel.Matmul{Dst: l.sublayerOut(), Act: lowAct, Parts: []kernel.Part{{Matrix: right}}})
		l.normTo(l.beside(), l.X(), kernel.Store, "attn_norm")
		l.normTo(l.beside(), l.sublayerOut(), kernel.Add, "laurel_post_norm")
	}}
}

func (l Layer) beside() kernel.Buf { return l.Floats("laurel", kernel.TokRows, l.Config.NEmbd) }

// AddLaurel is x = (x + laurel) / sqrt(2).
func (l Layer) AddLaurel() {
	l.plain(l.X(), kernel.Add, 1, l.beside())
	l.plain(l.X(), kernel.Store, math.Sqrt2/2, l.X())
}
