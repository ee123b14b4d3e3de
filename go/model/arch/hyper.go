package arch

import "github.com/quern-llm/quern/go/kernel"

// Hyper is the sizes of hyper-connections (Xie et al. 2025, "mHC"): a residual of several streams, of which a half reads a
// weighted sum and adds a multiple of its own to each, after these were mixed. Of the zero value there is one stream.
type Hyper struct {
	Streams int
	Rounds  int // of Sinkhorn's iteration, which makes of the mixture one that keeps sums
	Rank    int // of what gates are made by, where these mix: see readStreams
	Eps     float32
}

// hyper reads them.
func (k *keys) hyper() {
	k.c.Hyper = Hyper{
		Streams: k.int("hyper_connection.count", 2, kernel.Panel),
		Rounds:  k.int("hyper_connection.sinkhorn_iterations", 1, 1000),
		Eps:     float32(k.float("hyper_connection.epsilon", 0, 1)),
	}
	if k.err == nil && k.c.NEmbd%kernel.Panel != 0 {
		k.fail("embedding_length", "%d, want a multiple of %d", k.c.NEmbd, kernel.Panel)
	}
}

// connected has the residual of each token, one stream after the other.
func (b *builder) connected() kernel.Buf {
	return b.floats("streams", kernel.TokRows, b.cfg.Hyper.Streams*b.cfg.NEmbd)
}

// split makes all streams of the embedding.
func (b *builder) split() {
	for i := range b.cfg.Hyper.Streams {
		b.add(kernel.NormRows{
			Dst: b.connected(), DstCol: i * b.cfg.NEmbd, Src: b.x(), Cols: b.cfg.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
		})
	}
}

// weights computes what the streams are mixed by, and has in x what a half reads of them.
func (b *builder) weights(name string, rounds int) kernel.Mix {
	c, h := b.cfg, b.cfg.Hyper
	n, scales := kernel.ConnectInputs(h.Streams, rounds), 1
	if rounds > 0 {
		scales = 3
	}
	fn := b.matrix(name+"_fn.weight", h.Streams*c.NEmbd, n)
	act := b.act("streams", kernel.TokRows, h.Streams*c.NEmbd, fn)
	in, by := b.floats("connect.in", kernel.TokRows, n), b.floats("connect", kernel.TokRows, kernel.ConnectWidth(h.Streams))
	b.add(kernel.Norm{Act: act, Src: b.connected(), Cols: h.Streams * c.NEmbd, Eps: c.Eps})
	b.add(kernel.Matmul{Dst: in, Act: act, Parts: []kernel.Part{{Matrix: fn}}})
	b.add(kernel.Connect{
		Dst: by, Src: in, Streams: h.Streams, Rounds: rounds, Eps: h.Eps,
		Scale: b.vector(name+"_scale.weight", scales), Bias: b.vector(name+"_base.weight", n),
	})
	mix := kernel.Mix{Dst: b.x(), Src: b.connected(), Weights: by, Cols: c.NEmbd, Segs: 1, SrcSegs: h.Streams, Store: true}
	b.add(mix)
	return mix
}

// connect adds a half between the streams: it is given their weighted sum in x, and leaves there what it adds.
func (l layer) connect(name string, half func()) {
	streams := l.cfg.Hyper.Streams
	mix := l.weights(l.blk+name, l.cfg.Hyper.Rounds)
	l.alone = true
	half()
	mix.Dst, mix.Segs, mix.WeightCol = l.connected(), streams, kernel.ConnectCols[2]
	l.add(mix)
	mix.Src, mix.SrcSegs, mix.WeightCol, mix.Store = l.x(), 1, kernel.ConnectCols[1], false
	l.add(mix)
}

// join makes of the streams, after the last layer, the residual: their weighted sum.
func (b *builder) join(name string) {
	b.weights(name, 0)
	if last := len(b.p.Layers) - 1; last >= 0 {
		b.p.Layers[last] = append(b.p.Layers[last], b.take()...)
	}
}
