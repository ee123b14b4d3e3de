package arch

import (
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// altupStreams is the streams of the residual in AltUp (Baykal et al. 2023). The first is the active
// one: layers compute with it, and how far it was predicted wrongly corrects the others.
const altupStreams = 4

// streams has the residual of each token, one stream after the other.
func (b *builder) streams() kernel.Buf {
	return b.floats("streams", kernel.TokRows, altupStreams*b.cfg.NEmbd)
}

// plain stores scale times NEmbd columns, or adds that.
func (b *builder) plain(dst kernel.Buf, to kernel.Epilogue, scale float32, src kernel.Buf) {
	b.add(kernel.NormRows{Dst: dst, Src: src, Cols: b.cfg.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: scale, Epilogue: to})
}

// altupMatrix returns the projection of a tensor that belongs to a stream, of which the active one has none.
func (b *builder) altupMatrix(name string, stream int) kernel.Matrix {
	n := b.cfg.NEmbd
	return must(b.w.Nth(name, n, n, altupStreams-1, stream-1))
}

// spread makes the streams of the embedding: itself, and projections of it, as long as it is.
func (b *builder) spread() {
	n := b.cfg.NEmbd
	b.plain(b.streams(), kernel.Store, 1, b.x())
	for i := 1; i < altupStreams; i++ {
		m := b.altupMatrix("altup_proj.weight", i)
		act := b.act("embd", kernel.TokRows, n, m)
		b.add(kernel.ToAct{Act: act, Src: b.x(), Cols: n})
		b.add(kernel.Matmul{Dst: b.streams(), Act: act, Parts: []kernel.Part{{Matrix: m, Col: i * n}}})
		b.add(kernel.Match{Dst: b.streams(), DstCol: i * n, Src: b.x(), Cols: n})
	}
	b.p.Begin = append(b.p.Begin, b.take()...)
}

// merge makes of the streams, after the last layer, the residual again: the mean of the active one
// and of projections of the others, as long as it is.
func (b *builder) merge() {
	n := b.cfg.NEmbd
	b.plain(b.x(), kernel.Store, 1, b.streams())
	for i := 1; i < altupStreams; i++ {
		m := b.altupMatrix("altup_unembd_proj.weight", i)
		act, made := b.act("embd", kernel.TokRows, n, m), b.floats("sublayer", kernel.TokRows, n)
		b.add(kernel.ToAct{Act: act, Src: b.streams(), SrcCol: i * n, Cols: n})
		b.add(kernel.Matmul{Dst: made, Act: act, Parts: []kernel.Part{{Matrix: m}}})
		b.add(kernel.Match{Dst: made, Src: b.streams(), Cols: n})
		b.plain(b.x(), kernel.Add, 1, made)
	}
	b.plain(b.x(), kernel.Store, 1.0/altupStreams, b.x())
	if last := len(b.p.Layers) - 1; last >= 0 {
		b.p.Layers[last] = append(b.p.Layers[last], b.take()...)
	}
}

// coefficients returns n numbers for each token, which a matrix makes of tanh(router(norm(src))).
func (l layer) coefficients(src kernel.Buf, name string, n int, bias []float32) kernel.Buf {
	c := l.cfg
	router := l.matrix("altup_router.weight", c.NEmbd, altupStreams)
	coef := l.matrix(name+".weight", altupStreams, n)
	act := l.act("router", kernel.TokRows, c.NEmbd, router)
	modes, modesAct := l.floats("modes", kernel.TokRows, altupStreams), l.act("modes", kernel.TokRows, altupStreams, coef)
	dst := l.floats("coefficients", kernel.TokRows, n)
	l.add(l.norm(act, src, kernel.TokRows, "altup_router_norm"))
	l.add(kernel.Matmul{Dst: modes, Act: act, Parts: []kernel.Part{{Matrix: router}}, Scale: 1 / float32(c.NEmbd), Softcap: 1})
	l.add(kernel.ToAct{Act: modesAct, Src: modes, Cols: altupStreams})
	l.add(kernel.Matmul{Dst: dst, Act: modesAct, Parts: []kernel.Part{{Matrix: coef, Bias: bias}}})
	return dst
}

// predict adds to each stream a mixture of all, and has the active one in x.
func (l layer) predict() {
	by := l.coefficients(l.streams(), "altup_predict_coef", altupStreams*altupStreams, nil)
	l.add(kernel.Mix{Dst: l.streams(), Src: l.streams(), Weights: by, Cols: l.cfg.NEmbd, Segs: altupStreams, SrcSegs: altupStreams})
	l.plain(l.x(), kernel.Store, 1, l.streams())
}

// correct adds to each stream a multiple, near 1, of the difference of x and the active one.
func (l layer) correct() {
	ones := l.w.Floats("altup ones", kernel.Panel)
	copy(ones, slices.Repeat([]float32{1}, len(ones)))
	by := l.coefficients(l.x(), "altup_correct_coef", altupStreams, ones)
	l.plain(l.x(), kernel.Add, -1, l.streams())
	l.add(kernel.Mix{Dst: l.streams(), Src: l.x(), Weights: by, Cols: l.cfg.NEmbd, Segs: altupStreams, SrcSegs: 1})
}

// embed adds to the streams that are not active what the layer's embedding of the token makes of
// the one that is.
func (l layer) embed() {
	c := l.cfg
	h := l.projectedEmbedding(func(made kernel.Buf) {
		for i := 1; i < altupStreams; i++ {
			l.add(kernel.NormRows{
				Dst: l.streams(), DstCol: i * c.NEmbd, Src: made, Cols: c.NEmbd, Segs: 1, Kind: c.Norm, Eps: c.Eps, Scale: 1,
				Weight: l.vector("post_norm.weight", c.NEmbd), Epilogue: kernel.Add,
			})
		}
	})
	act := l.act("embd", kernel.TokRows, c.NEmbd, h.in...)
	l.add(kernel.Norm{
		Act: act, Src: l.streams(), Cols: c.NEmbd, Kind: kernel.NoNorm, Weight: l.vector("altup_correct_scale.weight", c.NEmbd),
	})
	h.run(act)
}

// laurelRank is the rank of the projection beside the attention.
const laurelRank = 64

// laurel is input + norm(right(left(input))), which is beside the attention. It has it in a buffer
// until that is done.
func (l layer) laurel() sublayer {
	n := l.cfg.NEmbd
	left := l.matrix("laurel_l.weight", n, laurelRank)
	right := l.matrix("laurel_r.weight", laurelRank, n)
	return sublayer{in: []kernel.Matrix{left}, run: func(act kernel.Act) {
		low, lowAct := l.floats("laurel low", kernel.TokRows, laurelRank), l.act("laurel low", kernel.TokRows, laurelRank, right)
		l.add(kernel.Matmul{Dst: low, Act: act, Parts: []kernel.Part{{Matrix: left}}})
		l.add(kernel.ToAct{Act: lowAct, Src: low, Cols: laurelRank})
		l.add(kernel.Matmul{Dst: l.sublayerOut(), Act: lowAct, Parts: []kernel.Part{{Matrix: right}}})
		l.normTo(l.beside(), l.x(), kernel.Store, "attn_norm")
		l.normTo(l.beside(), l.sublayerOut(), kernel.Add, "laurel_post_norm")
	}}
}

func (l layer) beside() kernel.Buf { return l.floats("laurel", kernel.TokRows, l.cfg.NEmbd) }

// addLaurel adds it, and keeps the size of the sum.
func (l layer) addLaurel() {
	l.plain(l.x(), kernel.Add, 1, l.beside())
	l.plain(l.x(), kernel.Store, math.Sqrt2/2, l.x())
}
