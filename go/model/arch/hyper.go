package arch

import "github.com/quern-llm/quern/go/kernel"

// Hyper is the sizes of hyper-connections (Xie et al. 2025, "mHC"): a residual of several streams, of which a sublayer
// reads a weighted sum and adds a multiple of its own to each, after these were mixed, or without. Of the zero value
// there is one stream.
type Hyper struct {
	Streams int
	Rounds  int // of Sinkhorn's iteration, which makes of the mixture one that keeps sums
	Rank    int // of what gates are made by, where these mix: see readStreams
	Eps     float32
	Add     float32 // how large the multiples are, where streams are not mixed
}

// hyper reads them, of streams that are mixed.
func (k *keys) hyper() {
	k.streams()
	k.c.Hyper.Rounds = k.int("hyper_connection.sinkhorn_iterations", 1, 1000)
}

// hyperApart reads them, of streams that are not.
func (k *keys) hyperApart() {
	k.streams()
	k.c.Hyper.Add = float32(k.float("hyper_connection.magnitude", 1e-3, 1e3))
}

func (k *keys) streams() {
	k.c.Hyper = Hyper{
		Streams: k.int("hyper_connection.count", 2, kernel.Panel),
		Eps:     float32(k.float("hyper_connection.epsilon", 0, 1)),
	}
	if k.c.NEmbd%kernel.Panel != 0 {
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

// weights computes what the streams are mixed by, and has in x what a sublayer reads of them.
func (b *builder) weights(name string, rounds int) kernel.Mix {
	h := b.cfg.Hyper
	n, scales := kernel.ConnectInputs(h.Streams, rounds), 1
	if rounds > 0 {
		scales = 3
	}
	op := kernel.Connect{
		Dst: b.weightsOf("connect"), Streams: h.Streams, Rounds: rounds, Eps: h.Eps,
		Src: b.measured(kernel.Part{Matrix: b.matrix(name+"_fn.weight", h.Streams*b.cfg.NEmbd, n)}),
	}
	op.Scale, op.Bias = b.vector(name+"_scale.weight", scales), b.vector(name+"_base.weight", n)
	b.add(op)
	return b.read(op.Dst)
}

// weightsOf has room for the result of a Connect.
func (b *builder) weightsOf(use string) kernel.Buf {
	return b.floats(use, kernel.TokRows, kernel.ConnectWidth(b.cfg.Hyper.Streams))
}

// measured has the products of matrices with the streams, normalised as one row.
func (b *builder) measured(parts ...kernel.Part) kernel.Buf {
	c, last := b.cfg, parts[len(parts)-1]
	width := c.Hyper.Streams * c.NEmbd
	act := b.act("streams", kernel.TokRows, width, matrices(parts)...)
	in := b.floats("connect.in", kernel.TokRows, last.Col+last.Matrix.Out)
	b.add(kernel.Norm{Act: act, Src: b.connected(), Cols: width, Eps: c.Eps})
	b.add(kernel.Matmul{Dst: in, Act: act, Parts: parts})
	return in
}

// read has in x the sum of the streams by these weights.
func (b *builder) read(weights kernel.Buf) kernel.Mix {
	mix := kernel.Mix{
		Dst: b.x(), Src: b.connected(), Weights: weights, Cols: b.cfg.NEmbd, Segs: 1, SrcSegs: b.cfg.Hyper.Streams, Store: true,
	}
	b.add(mix)
	return mix
}

// connect adds a sublayer between the streams: it is given their weighted sum in x, and leaves there what it adds.
func (l layer) connect(name string, run func()) {
	streams := l.cfg.Hyper.Streams
	mix := l.weights(l.blk+name, l.cfg.Hyper.Rounds)
	l.storeNext = true
	run()
	mix.Dst, mix.Segs, mix.WeightCol = l.connected(), streams, kernel.ConnectCols[2]
	l.add(mix)
	mix.Src, mix.SrcSegs, mix.WeightCol, mix.Store = l.x(), 1, kernel.ConnectCols[1], false
	l.add(mix)
}

// connectApart is connect of streams that are not mixed: of the matrix, the first rows say what the sublayer reads, the
// others what it adds.
func (l layer) connectApart(name string, run func()) {
	h := l.cfg.Hyper
	n := h.Streams
	fn := func(from int) kernel.Matrix {
		return l.rows(name+"_fn.weight", n*l.cfg.NEmbd, 2*n, from, n, 1)
	}
	in := l.measured(kernel.Part{Matrix: fn(0)}, kernel.Part{Matrix: fn(n), Col: kernel.Panel})
	reads := kernel.Connect{Dst: l.weightsOf("connect"), Src: in, Streams: n, Eps: h.Eps}
	adds := kernel.Connect{Dst: l.weightsOf("connect.add"), Src: in, SrcCol: kernel.Panel, Streams: n, Eps: h.Eps / h.Add}
	reads.Scale, reads.Bias = l.vector(name+"_scale.weight", 2), l.vector(name+"_base.weight", 2*n)
	if reads.Scale != nil {
		adds.Scale, adds.Bias = reads.Scale[1:], reads.Bias[n:]
	}
	l.add(reads)
	l.add(adds)
	l.add(kernel.NormRows{Dst: adds.Dst, Src: adds.Dst, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: h.Add})
	mix := l.read(reads.Dst)
	l.storeNext = true
	run()
	mix.Dst, mix.Segs, mix.Src, mix.SrcSegs, mix.Weights, mix.Store = l.connected(), n, l.x(), 1, adds.Dst, false
	l.add(mix)
}

// join makes of the streams, after the last layer, the residual: their weighted sum.
func (b *builder) join(name string) {
	b.weights(name, 0)
	if last := len(b.p.Layers) - 1; last >= 0 {
		b.p.Layers[last] = append(b.p.Layers[last], b.take()...)
	}
}
