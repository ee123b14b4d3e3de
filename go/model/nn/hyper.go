package nn

import "github.com/quern-llm/quern/go/kernel"

// Hyper is the sizes of hyper-connections (Zhu et al. 2024; Xie et al. 2025, "mHC"): a residual of several streams. A
// sublayer reads a weighted sum of them and adds a multiple of its result to each, after the streams are mixed, or
// without mixing. The zero value: one stream.
type Hyper struct {
	Streams int
	Rounds  int // of Sinkhorn's iteration, which makes of the mixture one that keeps sums
	Rank    int // of what gates are made by, where these mix: see readStreams
	Eps     float32
	Add     float32 // how large the multiples are, where streams are not mixed
}

// HyperConnections reads the sizes of streams that are mixed.
func (k *Keys) HyperConnections() {
	k.streams()
	k.Config.Hyper.Rounds = k.Int("hyper_connection.sinkhorn_iterations", 1, 1000)
}

// HyperConnectionsApart reads the sizes of streams that are not mixed.
func (k *Keys) HyperConnectionsApart() {
	k.streams()
	k.Config.Hyper.Add = float32(k.Float("hyper_connection.magnitude", 1e-3, 1e3))
}

func (k *Keys) streams() {
	k.Config.Hyper = Hyper{
		Streams: k.Int("hyper_connection.count", 2, kernel.Panel),
		Eps:     float32(k.Float("hyper_connection.epsilon", 0, 1)),
	}
	if k.Config.NEmbd%kernel.Panel != 0 {
		k.Fail("embedding_length", "%d, want a multiple of %d", k.Config.NEmbd, kernel.Panel)
	}
}

// connected is the buffer of the streams, one after the other.
func (b *Builder) connected() kernel.Buf {
	return b.Floats("streams", kernel.TokRows, b.Config.Hyper.Streams*b.Config.NEmbd)
}

// Split copies the embedding to all streams.
func (b *Builder) Split() {
	for i := range b.Config.Hyper.Streams {
		b.Add(kernel.NormRows{
			Dst: b.connected(), DstCol: i * b.Config.NEmbd, Src: b.X(), Cols: b.Config.NEmbd, Segs: 1,
			Kind: kernel.NoNorm, Scale: 1,
		})
	}
}

// connectWeights computes the weights of the streams, and puts the input of a sublayer into x.
func (b *Builder) connectWeights(name string, rounds int) kernel.Mix {
	h := b.Config.Hyper
	n, scales := kernel.ConnectInputs(h.Streams, rounds), 1
	if rounds > 0 {
		scales = 3
	}
	op := kernel.Connect{
		Dst: b.weightsOf("connect"), Streams: h.Streams, Rounds: rounds, Eps: h.Eps,
		Src: b.measured(kernel.Part{Matrix: b.Matrix(name+"_fn.weight", h.Streams*b.Config.NEmbd, n)}),
	}
	op.Scale, op.Bias = b.Vector(name+"_scale.weight", scales), b.Vector(name+"_base.weight", n)
	b.Add(op)
	return b.read(op.Dst)
}

// weightsOf is the buffer of the result of a Connect.
func (b *Builder) weightsOf(use string) kernel.Buf {
	return b.Floats(use, kernel.TokRows, kernel.ConnectWidth(b.Config.Hyper.Streams))
}

// measured is the buffer of products with the streams, normalised as one row.
func (b *Builder) measured(parts ...kernel.Part) kernel.Buf {
	c, last := b.Config, parts[len(parts)-1]
	width := c.Hyper.Streams * c.NEmbd
	act := b.Act("streams", kernel.TokRows, width, matrices(parts)...)
	in := b.Floats("connect.in", kernel.TokRows, last.Col+last.Matrix.Out)
	b.Add(kernel.Norm{Act: act, Src: b.connected(), Cols: width, Eps: c.Eps})
	b.Add(kernel.Matmul{Dst: in, Act: act, Parts: parts})
	return in
}

// read puts the weighted sum of the streams into x.
func (b *Builder) read(weights kernel.Buf) kernel.Mix {
	mix := kernel.Mix{
		Dst: b.X(), Src: b.connected(), Weights: weights, Cols: b.Config.NEmbd, Segs: 1,
		SrcSegs: b.Config.Hyper.Streams, Store: true,
	}
	b.Add(mix)
	return mix
}

// Connect runs a sublayer between the streams: run reads their weighted sum in x, and leaves its result there.
func (l Layer) Connect(name string, run func()) {
	streams := l.Config.Hyper.Streams
	mix := l.connectWeights(l.prefix+name, l.Config.Hyper.Rounds)
	l.storeNext = true
	run()
	mix.Dst, mix.Segs, mix.WeightCol = l.connected(), streams, kernel.ConnectCols[2]
	l.Add(mix)
	mix.Src, mix.SrcSegs, mix.WeightCol, mix.Store = l.X(), 1, kernel.ConnectCols[1], false
	l.Add(mix)
}

// ConnectApart is Connect for streams that are not mixed. The first rows of the matrix are for what the sublayer reads,
// the others for what it adds.
func (l Layer) ConnectApart(name string, run func()) {
	h := l.Config.Hyper
	n := h.Streams
	fn := func(from int) kernel.Matrix {
		return l.rows(name+"_fn.weight", n*l.Config.NEmbd, 2*n, from, n, 1)
	}
	in := l.measured(kernel.Part{Matrix: fn(0)}, kernel.Part{Matrix: fn(n), Col: kernel.Panel})
	reads := kernel.Connect{Dst: l.weightsOf("connect"), Src: in, Streams: n, Eps: h.Eps}
	adds := kernel.Connect{
		Dst: l.weightsOf("connect.add"), Src: in, SrcCol: kernel.Panel, Streams: n, Eps: h.Eps / h.Add,
	}
	reads.Scale, reads.Bias = l.Vector(name+"_scale.weight", 2), l.Vector(name+"_base.weight", 2*n)
	if reads.Scale != nil {
		adds.Scale, adds.Bias = reads.Scale[1:], reads.Bias[n:]
	}
	l.Add(reads)
	l.Add(adds)
	l.Add(kernel.NormRows{Dst: adds.Dst, Src: adds.Dst, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: h.Add})
	mix := l.read(reads.Dst)
	l.storeNext = true
	run()
	mix.Dst, mix.Segs, mix.Src, mix.SrcSegs, mix.Weights, mix.Store = l.connected(), n, l.X(), 1, adds.Dst, false
	l.Add(mix)
}

// Join puts the weighted sum of the streams into x, after the last layer.
func (b *Builder) Join(name string) {
	b.connectWeights(name, 0)
	if last := len(b.Program.Layers) - 1; last >= 0 {
		b.Program.Layers[last] = append(b.Program.Layers[last], b.Take()...)
	}
}
