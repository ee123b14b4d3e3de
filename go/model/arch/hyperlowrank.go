package arch

import "github.com/quern-llm/quern/go/kernel"

// Hyper-connections of low rank: each stream of the residual is normalised, a sublayer reads their mean after gates,
// and adds what it makes to each by a weight of its own.

// hyperLowRank reads their sizes.
func (k *keys) hyperLowRank() {
	k.c.Hyper = Hyper{
		Streams: k.int("hyper_connection.count", 2, kernel.Panel),
		Rank:    k.int("hyper_connection.low_rank", 1, maxEmbd),
	}
	if k.c.NEmbd%kernel.Panel != 0 {
		k.fail("embedding_length", "%d, want a multiple of %d", k.c.NEmbd, kernel.Panel)
	}
}

// normStreams has the norm of each stream of src, with weights of its own, in dst.
func (b *builder) normStreams(dst, src kernel.Buf, name string) {
	c := b.cfg
	b.add(kernel.NormRows{
		Dst: dst, Src: src, Cols: c.NEmbd, Segs: c.Hyper.Streams, SegWeights: true, Eps: c.Eps, Scale: 1,
		Weight: b.vector(name+".weight", c.Hyper.Streams*c.NEmbd),
	})
}

// readStreams has in x the mean of the normalised streams times their gates. Where there is a matrix for it, it returns
// the weights of what is added to each.
func (b *builder) readStreams(name string, adds bool) (weights kernel.Buf) {
	c, n := b.cfg, b.cfg.Hyper.Streams
	width, mean := n*c.NEmbd, 1/float32(n)
	down := b.matrix(name+"_down.weight", width, c.Hyper.Rank)
	up := b.matrix(name+"_up.weight", c.Hyper.Rank, width)
	takes := []kernel.Matrix{down}
	if adds {
		takes = append(takes, b.matrix(name+"_inject.weight", width, n))
	}
	normed, gates := b.floats("streams.normed", kernel.TokRows, width), b.floats("streams.gates", kernel.TokRows, width)
	low := b.floats("streams.low", kernel.TokRows, c.Hyper.Rank)
	act, lowAct := b.act("streams", kernel.TokRows, width, takes...), b.act("streams.low", kernel.TokRows, c.Hyper.Rank, up)

	b.normStreams(normed, b.connected(), name+"_norm")
	b.add(kernel.ToAct{Act: act, Src: normed, Cols: width})
	b.add(kernel.Matmul{Dst: low, Act: b.only(act, down), Scale: mean, Parts: []kernel.Part{{Matrix: down}}})
	b.add(kernel.Gate{Dst: low, Src: low, Cols: c.Hyper.Rank, Fn: kernel.Sigmoid}) // times itself: SiLU
	b.add(kernel.ToAct{Act: lowAct, Src: low, Cols: c.Hyper.Rank})
	b.add(kernel.Matmul{Dst: gates, Act: lowAct, Parts: []kernel.Part{{Matrix: up}}})
	b.add(kernel.Gate{Dst: normed, Src: gates, Cols: width, Fn: kernel.Sigmoid})
	for i := range n {
		sum := kernel.NormRows{Dst: b.x(), Src: normed, SrcCol: i * c.NEmbd, Cols: c.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: mean}
		if i > 0 {
			sum.Epilogue = kernel.Add
		}
		b.add(sum)
	}
	if !adds {
		return 0
	}
	weights = b.floats("connect", kernel.TokRows, kernel.ConnectWidth(n))
	in := b.floats("connect.in", kernel.TokRows, n)
	scale, bias := b.w.Floats("streams.scale", 1), b.w.Floats("streams.bias", n)
	if scale != nil {
		scale[0] = mean
	}
	b.add(kernel.Matmul{Dst: in, Act: b.only(act, takes[1]), Parts: []kernel.Part{{Matrix: takes[1]}}})
	b.add(kernel.Connect{Dst: weights, Src: in, Streams: n, Scale: scale, Bias: bias})
	b.add(kernel.NormRows{Dst: weights, Src: weights, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 2})
	return weights
}

// connectLowRank adds a sublayer between the streams: it is given their mean in x, and leaves there what it adds.
func (l layer) connectLowRank(name string, run func()) {
	weights := l.readStreams(l.blk+name, true)
	l.storeNext = true
	run()
	l.add(kernel.Mix{
		Dst: l.connected(), Src: l.x(), Weights: weights, Cols: l.cfg.NEmbd, Segs: l.cfg.Hyper.Streams, SrcSegs: 1,
	})
}

// joinLowRank makes of the streams, after the last layer, what logits are made of.
func (b *builder) joinLowRank(name string) {
	b.readStreams(name, false)
	if last := len(b.p.Layers) - 1; last >= 0 {
		b.p.Layers[last] = append(b.p.Layers[last], b.take()...)
	}
}
