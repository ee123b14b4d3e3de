package nn

import "github.com/quern-llm/quern/go/kernel"

// Hyper-connections of low rank: each stream of the residual is normalised, a sublayer reads the mean of the gated
// streams, and adds its result to each with a weight per stream.

// HyperConnectionsLowRank reads the sizes of hyper-connections with gates of low rank.
func (k *Keys) HyperConnectionsLowRank() {
	k.Config.Hyper = Hyper{
		Streams: k.Int("hyper_connection.count", 2, kernel.Panel),
		Rank:    k.Int("hyper_connection.low_rank", 1, MaxEmbd),
	}
	if k.Config.NEmbd%kernel.Panel != 0 {
		k.Fail("embedding_length", "%d, want a multiple of %d", k.Config.NEmbd, kernel.Panel)
	}
}

// normStreams puts the norm of each stream of src, with weights of its own, into dst.
func (b *Builder) normStreams(dst, src kernel.Buf, name string) {
	c := b.Config
	b.Add(kernel.NormRows{
		Dst: dst, Src: src, Cols: c.NEmbd, Segs: c.Hyper.Streams, SegWeights: true, Eps: c.Eps, Scale: 1,
		Weight: b.Vector(name+".weight", c.Hyper.Streams*c.NEmbd),
	})
}

// readStreams puts the mean of the normalised and gated streams into x. With adds it returns the weights of the result
// per stream.
func (b *Builder) readStreams(name string, adds bool) (weights kernel.Buf) {
	c, n := b.Config, b.Config.Hyper.Streams
	width, mean := n*c.NEmbd, 1/float32(n)
	down := b.Matrix(name+"_down.weight", width, c.Hyper.Rank)
	up := b.Matrix(name+"_up.weight", c.Hyper.Rank, width)
	takes := []kernel.Matrix{down}
	if adds {
		takes = append(takes, b.Matrix(name+"_inject.weight", width, n))
	}
	normed, gates := b.Floats("streams.normed", kernel.TokRows, width), b.Floats("streams.gates", kernel.TokRows, width)
	low := b.Floats("streams.low", kernel.TokRows, c.Hyper.Rank)
	act, lowAct := b.Act("streams", kernel.TokRows, width, takes...),
		b.Act("streams.low", kernel.TokRows, c.Hyper.Rank, up)

	b.normStreams(normed, b.connected(), name+"_norm")
	b.Add(kernel.ToAct{Act: act, Src: normed, Cols: width})
	b.Add(kernel.Matmul{Dst: low, Act: b.Only(act, down), Scale: mean, Parts: []kernel.Part{{Matrix: down}}})
	b.Add(kernel.Gate{Dst: low, Src: low, Cols: c.Hyper.Rank, Fn: kernel.Sigmoid}) // times itself: SiLU
	b.Add(kernel.ToAct{Act: lowAct, Src: low, Cols: c.Hyper.Rank})
	b.Add(kernel.Matmul{Dst: gates, Act: lowAct, Parts: []kernel.Part{{Matrix: up}}})
	b.Add(kernel.Gate{Dst: normed, Src: gates, Cols: width, Fn: kernel.Sigmoid})
	for i := range n {
		sum := kernel.NormRows{
			Dst: b.X(), Src: normed, SrcCol: i * c.NEmbd, Cols: c.NEmbd, Segs: 1, Kind: kernel.NoNorm,
			Scale: mean,
		}
		if i > 0 {
			sum.Epilogue = kernel.Add
		}
		b.Add(sum)
	}
	if !adds {
		return 0
	}
	weights = b.Floats("connect", kernel.TokRows, kernel.ConnectWidth(n))
	in := b.Floats("connect.in", kernel.TokRows, n)
	scale, bias := b.weights.Floats("streams.scale", 1), b.weights.Floats("streams.bias", n)
	if scale != nil {
		scale[0] = mean
	}
	b.Add(kernel.Matmul{Dst: in, Act: b.Only(act, takes[1]), Parts: []kernel.Part{{Matrix: takes[1]}}})
	b.Add(kernel.Connect{Dst: weights, Src: in, Streams: n, Scale: scale, Bias: bias})
	b.Add(kernel.NormRows{Dst: weights, Src: weights, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 2})
	return weights
}

// ConnectLowRank runs a sublayer between the streams: run reads their mean in x, and leaves its result there.
func (l Layer) ConnectLowRank(name string, run func()) {
	weights := l.readStreams(l.prefix+name, true)
	l.storeNext = true
	run()
	l.Add(kernel.Mix{
		Dst: l.connected(), Src: l.X(), Weights: weights, Cols: l.Config.NEmbd, Segs: l.Config.Hyper.Streams,
		SrcSegs: 1,
	})
}

// JoinLowRank puts the mean of the gated streams into x, after the last layer.
func (b *Builder) JoinLowRank(name string) {
	b.readStreams(name, false)
	if last := len(b.Program.Layers) - 1; last >= 0 {
		b.Program.Layers[last] = append(b.Program.Layers[last], b.Take()...)
	}
}
