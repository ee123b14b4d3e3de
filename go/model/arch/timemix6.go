package arch

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// rwkv6 reads the sizes of the time mixing of RWKV 6. Heads of keys and values may be shared.
func (k *keys) rwkv6() {
	c, r := k.c, &k.c.RWKV
	r.HeadDim = k.int("wkv.head_size", 1, maxHeadDim)
	r.Shares = k.int("time_mix_extra_dim", 1, maxEmbd)
	r.Decay = k.int("time_decay_extra_dim", 1, maxEmbd)
	r.Halve = k.intOr("rescale_every_n_layers", 0, 0, maxLayer)
	k.rwkvHeads()
	if r.Shares%kernel.Panel != 0 {
		k.fail("time_mix_extra_dim", "%d, want a multiple of %d", r.Shares, kernel.Panel)
	}
	heads := c.NEmbd / r.HeadDim
	const shared = "attention.head_count_kv"
	k.eachOr(shared, 0, heads, func(l *Layer, n int) { l.NHeadKV = n })
	for il := range c.Layers {
		l := &c.Layers[il]
		if l.NHeadKV == 0 {
			l.NHeadKV = heads
		}
		if heads%l.NHeadKV != 0 {
			k.fail(shared, "%d, want a divisor of the %d heads", l.NHeadKV, heads)
		}
	}
}

// before are shares of 1: the token before itself.
func (l layer) before() []float32 {
	all := make([]float32, l.cfg.NEmbd)
	for i := range all {
		all[i] = 1
	}
	return all
}

// timeMix6Shares are the names of what has norm(x) moved towards that of the token before, in the order of the tensors.
const timeMix6Shares = "wkvrg"

// timeMix6 adds to x what heads with a state make of norm(x): of a receptance, a key and a value, of decays and of a
// gate of the result. Each has norm(x) as input with some of the token before, how much of it says, by channels, a
// product of two matrices as well.
func (l layer) timeMix6(norm string) {
	n, r := l.cfg.NEmbd, l.cfg.RWKV
	heads, shared := n/r.HeadDim, l.NHeadKV*r.HeadDim
	moved := l.shift(norm, "time_mix_lerp_x.weight", 2, l.before(), l.vector("time_mix_lerp_x.weight", n))
	input := l.timeMix6Inputs(moved)

	rkv := l.floats("rwkv", kernel.TokRows, n+2*shared)
	decays, gate := l.floats("rwkv.decays", kernel.TokRows, n), l.floats("rwkv.gate", kernel.TokRows, n)
	project := func(name string, i, rows, col int) {
		m := l.matrix(name+".weight", n, rows)
		p := kernel.Part{Matrix: m, Bias: l.optional(name+".bias", rows), Col: col}
		l.add(kernel.Matmul{Dst: rkv, Act: input(i, m), Parts: []kernel.Part{p}})
	}
	decay := l.matrix("time_mix_decay_w1.weight", n, r.Decay)
	l.lowRank("rwkv", input(0, decay), decay, kernel.Matmul{Softcap: 1}, decays, kernel.Part{ // tanh between
		Matrix: l.matrix("time_mix_decay_w2.weight", r.Decay, n), Bias: l.vector("time_mix_decay.weight", n),
	})
	project("time_mix_key", 1, shared, n)
	project("time_mix_value", 2, shared, n+shared)
	project("time_mix_receptance", 3, n, 0)
	g := l.square("time_mix_gate")
	opened := kernel.Matmul{Dst: gate, Act: input(4, g), Parts: []kernel.Part{{Matrix: g}}, Epilogue: kernel.Apply, Fn: kernel.SiLU}
	if r.Bare {
		opened.Fn = kernel.Sigmoid
	}
	l.add(opened)

	y := l.floats("rwkv.y", kernel.TokRows, n)
	group, offset := l.state(recurrent(kernel.WKVBytes(heads, r.HeadDim)))
	op := kernel.Decay{
		Dst: y, Src: rkv, Col: [3]int{0, n, n + shared}, Decays: decays, NHead: heads, NHeadKey: l.NHeadKV, HeadDim: r.HeadDim,
		Late: r.Bare, Scale: float32(1 / math.Sqrt(float64(r.HeadDim))), Group: group, Offset: offset,
	}
	if !r.Bare {
		op.Bonus = l.vector("time_mix_first.weight", r.HeadDim, heads)
	}
	l.add(op)
	if !r.Bare {
		l.add(kernel.NormRows{
			Dst: y, Src: y, Cols: r.HeadDim, Segs: heads, Kind: kernel.LayerNorm, Eps: groupEps, SegWeights: true, Scale: 1,
			Weight: l.vector("time_mix_ln.weight", n), Bias: l.vector("time_mix_ln.bias", n),
		})
	}
	l.add(kernel.Gate{Dst: y, Src: gate, Cols: n, Fn: kernel.NoFn})
	out := l.square("time_mix_output")
	act := l.act("rwkv", kernel.TokRows, n, out)
	l.add(kernel.ToAct{Act: act, Src: y, Cols: n})
	l.result(act, kernel.Part{Matrix: out}, "")
}

// timeMix6Inputs returns what makes input i of the time mixing as these matrices take it. moved has the norm of the
// token before, and behind it that of the token, moved towards it.
func (l layer) timeMix6Inputs(moved kernel.Buf) func(i int, mats ...kernel.Matrix) kernel.Act {
	n, rank := l.cfg.NEmbd, l.cfg.RWKV.Shares
	first := l.matrix("time_mix_w1.weight", n, len(timeMix6Shares)*rank)
	var second []kernel.Matrix
	for i := range timeMix6Shares {
		m := l.nth("time_mix_w2.weight", rank, n, len(timeMix6Shares), i)
		second = append(second, m)
	}
	low := l.floats("shares.low", kernel.TokRows, first.Out)
	act, lowAct := l.act("embd", kernel.TokRows, n, first), l.act("shares.low", kernel.TokRows, rank, second...)
	src, by, mixed := l.floats("shift.in", kernel.TokRows, n), l.floats("shares", kernel.TokRows, n), l.floats("shared", kernel.TokRows, n)
	l.add(kernel.ToAct{Act: act, Src: moved, SrcCol: n, Cols: n})
	l.add(kernel.Matmul{Dst: low, Act: l.only(act, first), Parts: []kernel.Part{{Matrix: first}}, Softcap: 1}) // tanh
	return func(i int, mats ...kernel.Matrix) kernel.Act {
		made := l.act("embd", kernel.TokRows, n, mats...)
		l.add(kernel.ToAct{Act: lowAct, Src: low, SrcCol: i * rank, Cols: rank})
		l.add(kernel.Matmul{Dst: by, Act: lowAct, Parts: []kernel.Part{{Matrix: second[i], Bias: l.timeMix6Share(i)}}})
		l.add(kernel.NormRows{Dst: mixed, Src: src, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1})
		l.add(kernel.Blend{Dst: mixed, Src: moved, By: by, Cols: n, Fn: kernel.NoFn})
		l.add(kernel.ToAct{Act: made, Src: mixed, Cols: n})
		return made
	}
}

// timeMix6Share is the share of the token before in input i that does not depend on the token: some files have those of
// all inputs in one tensor.
func (l layer) timeMix6Share(i int) []float32 {
	n, fused := l.cfg.NEmbd, "time_mix_lerp_fused.weight"
	if !l.has(fused) {
		return l.vector("time_mix_lerp_"+timeMix6Shares[i:i+1]+".weight", n)
	}
	all := l.vector(fused, n, 1, 1, len(timeMix6Shares))
	if all == nil {
		return nil
	}
	return all[i*n : (i+1)*n]
}

// channelMix6 adds to x sigmoid(receptance(a)) * value(relu(key(b))^2), where a and b are norm(x) with some of the
// token before.
func (l layer) channelMix6(norm string) {
	n := l.cfg.NEmbd
	key, value := l.matrix("channel_mix_key.weight", n, l.NFF), l.matrix("channel_mix_value.weight", l.NFF, n)
	open := l.square("channel_mix_receptance")
	src := l.shift(norm, "channel_mix_lerp_k.weight", 2,
		l.vector("channel_mix_lerp_k.weight", n), l.vector("channel_mix_lerp_r.weight", n))
	act, ffn := l.act("embd", kernel.TokRows, n, key, open), l.floats("ffn", kernel.TokRows, l.NFF)
	ffnAct, gate := l.act("ffn", kernel.TokRows, l.NFF, value), l.floats("rwkv.gate", kernel.TokRows, n)
	l.add(kernel.ToAct{Act: l.only(act, key), Src: src, Cols: n})
	l.add(kernel.Matmul{Dst: ffn, Act: l.only(act, key), Parts: []kernel.Part{{Matrix: key}}, Epilogue: kernel.Apply, Fn: kernel.ReLU2})
	l.add(kernel.ToAct{Act: l.only(act, open), Src: src, SrcCol: n, Cols: n})
	l.add(kernel.Matmul{Dst: gate, Act: l.only(act, open), Parts: []kernel.Part{{Matrix: open}}, Epilogue: kernel.Apply, Fn: kernel.Sigmoid})
	l.add(kernel.ToAct{Act: ffnAct, Src: ffn, Cols: l.NFF})
	l.add(kernel.Matmul{Dst: l.sublayerOut(), Act: ffnAct, Parts: []kernel.Part{{Matrix: value}}})
	l.add(kernel.Gate{Dst: l.sublayerOut(), Src: gate, Cols: n, Fn: kernel.NoFn})
	l.add(kernel.NormRows{Dst: l.x(), Src: l.sublayerOut(), Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1, Epilogue: kernel.Add})
}
