package nn

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// RWKV6 reads the sizes of the time mixing of RWKV 6. Heads of keys and values may be shared.
func (k *Keys) RWKV6() {
	c, r := k.Config, &k.Config.RWKV
	r.HeadDim = k.Int("wkv.head_size", 1, MaxHeadDim)
	r.TokenShift = k.Int("time_mix_extra_dim", 1, MaxEmbd)
	r.Decay = k.Int("time_decay_extra_dim", 1, MaxEmbd)
	r.Halve = k.IntOr("rescale_every_n_layers", 0, 0, MaxLayer)
	k.rwkvHeads()
	if r.TokenShift%kernel.Panel != 0 {
		k.Fail("time_mix_extra_dim", "%d, want a multiple of %d", r.TokenShift, kernel.Panel)
	}
	heads := c.NEmbd / r.HeadDim
	const shared = "attention.head_count_kv"
	k.eachOr(shared, 0, heads, func(l *LayerConfig, n int) { l.NHeadKV = n })
	for il := range c.Layers {
		l := &c.Layers[il]
		if l.NHeadKV == 0 {
			l.NHeadKV = heads
		}
		if heads%l.NHeadKV != 0 {
			k.Fail(shared, "%d, want a divisor of the %d heads", l.NHeadKV, heads)
		}
	}
}

// before returns shares of 1: the token before.
func (l Layer) before() []float32 {
	all := make([]float32, l.Config.NEmbd)
	for i := range all {
		all[i] = 1
	}
	return all
}

// timeMix6Shares names the inputs with token shift, in the order of the tensors.
const timeMix6Shares = "wkvrg"

// TimeMix6 adds the time mixing of RWKV 6 of norm(x) (Peng et al. 2024, "Eagle and Finch"): heads with a state, from a
// receptance, a key, a value, decays and a gate. Each input is norm(x) mixed with that of the token before, by shares
// per channel that depend on the token, through a product of low rank.
func (l Layer) TimeMix6(norm string) {
	n, r := l.Config.NEmbd, l.Config.RWKV
	heads, shared := n/r.HeadDim, l.NHeadKV*r.HeadDim
	moved := l.shift(norm, "time_mix_lerp_x.weight", 2, l.before(), l.Vector("time_mix_lerp_x.weight", n))
	input := l.timeMix6Inputs(moved)

	rkv := l.Floats("rwkv", kernel.TokRows, n+2*shared)
	decays, gate := l.Floats("rwkv.decays", kernel.TokRows, n), l.Floats("rwkv.gate", kernel.TokRows, n)
	project := func(name string, i, rows, col int) {
		m := l.Matrix(name+".weight", n, rows)
		p := kernel.Part{Matrix: m, Bias: l.optional(name+".bias", rows), Col: col}
		l.Add(kernel.Matmul{Dst: rkv, Act: input(i, m), Parts: []kernel.Part{p}})
	}
	decay := l.Matrix("time_mix_decay_w1.weight", n, r.Decay)
	l.lowRank("rwkv", input(0, decay), decay, kernel.Matmul{Softcap: 1}, decays, kernel.Part{ // tanh between
		Matrix: l.Matrix("time_mix_decay_w2.weight", r.Decay, n), Bias: l.Vector("time_mix_decay.weight", n),
	})
	project("time_mix_key", 1, shared, n)
	project("time_mix_value", 2, shared, n+shared)
	project("time_mix_receptance", 3, n, 0)
	g := l.square("time_mix_gate")
	opened := kernel.Matmul{
		Dst: gate, Act: input(4, g), Parts: []kernel.Part{{Matrix: g}}, Epilogue: kernel.Apply, Fn: kernel.SiLU,
	}
	if r.Bare {
		opened.Fn = kernel.Sigmoid
	}
	l.Add(opened)

	y := l.Floats("rwkv.y", kernel.TokRows, n)
	group, offset := l.state(recurrent(kernel.WKVBytes(heads, r.HeadDim)))
	op := kernel.Decay{
		Dst: y, Src: rkv, Col: [3]int{0, n, n + shared}, Decays: decays, NHead: heads, NHeadKey: l.NHeadKV,
		HeadDim: r.HeadDim,
		Late:    r.Bare, Scale: float32(1 / math.Sqrt(float64(r.HeadDim))), Group: group, Offset: offset,
	}
	if !r.Bare {
		op.Bonus = l.Vector("time_mix_first.weight", r.HeadDim, heads)
	}
	l.Add(op)
	if !r.Bare {
		l.Add(kernel.NormRows{
			Dst: y, Src: y, Cols: r.HeadDim, Segs: heads, Kind: kernel.LayerNorm, Eps: groupEps, SegWeights: true,
			Scale:  1,
			Weight: l.Vector("time_mix_ln.weight", n), Bias: l.Vector("time_mix_ln.bias", n),
		})
	}
	l.Add(kernel.Gate{Dst: y, Src: gate, Cols: n, Fn: kernel.NoFn})
	out := l.square("time_mix_output")
	act := l.Act("rwkv", kernel.TokRows, n, out)
	l.Add(kernel.ToAct{Act: act, Src: y, Cols: n})
	l.result(act, kernel.Part{Matrix: out}, "")
}

// timeMix6Inputs returns a function that computes input i of the time mixing for products with these matrices. moved
// has the norm of the token before, then that of the token moved towards it.
func (l Layer) timeMix6Inputs(moved kernel.Buf) func(i int, mats ...kernel.Matrix) kernel.Act {
	n, rank := l.Config.NEmbd, l.Config.RWKV.TokenShift
	first := l.Matrix("time_mix_w1.weight", n, len(timeMix6Shares)*rank)
	var second []kernel.Matrix
	for i := range timeMix6Shares {
		m := l.nth("time_mix_w2.weight", rank, n, len(timeMix6Shares), i)
		second = append(second, m)
	}
	low := l.Floats("shares.low", kernel.TokRows, first.Out)
	act, lowAct := l.Act("embd", kernel.TokRows, n, first), l.Act("shares.low", kernel.TokRows, rank, second...)
	src, by, mixed := l.Floats("shift.in", kernel.TokRows, n), l.Floats("shares", kernel.TokRows, n),
		l.Floats("shared", kernel.TokRows, n)
	l.Add(kernel.ToAct{Act: act, Src: moved, SrcCol: n, Cols: n})
	l.Add(kernel.Matmul{Dst: low, Act: l.Only(act, first), Parts: []kernel.Part{{Matrix: first}}, Softcap: 1}) // tanh
	return func(i int, mats ...kernel.Matrix) kernel.Act {
		made := l.Act("embd", kernel.TokRows, n, mats...)
		l.Add(kernel.ToAct{Act: lowAct, Src: low, SrcCol: i * rank, Cols: rank})
		l.Add(kernel.Matmul{
			Dst: by, Act: lowAct, Parts: []kernel.Part{{Matrix: second[i], Bias: l.timeMix6Share(i)}},
		})
		l.Add(kernel.NormRows{Dst: mixed, Src: src, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1})
		l.Add(kernel.Blend{Dst: mixed, Src: moved, By: by, Cols: n, Fn: kernel.NoFn})
		l.Add(kernel.ToAct{Act: made, Src: mixed, Cols: n})
		return made
	}
}

// timeMix6Share returns the part of the share in input i that does not depend on the token. Some files have those of
// all inputs in one tensor.
func (l Layer) timeMix6Share(i int) []float32 {
	n, fused := l.Config.NEmbd, "time_mix_lerp_fused.weight"
	if !l.Has(fused) {
		return l.Vector("time_mix_lerp_"+timeMix6Shares[i:i+1]+".weight", n)
	}
	all := l.Vector(fused, n, 1, 1, len(timeMix6Shares))
	if all == nil {
		return nil
	}
	return all[i*n : (i+1)*n]
}

// ChannelMix6 adds sigmoid(receptance(a)) * value(relu(key(b))^2), with a and b = norm(x) mixed with that of the token
// before.
func (l Layer) ChannelMix6(norm string) {
	n := l.Config.NEmbd
	key, value := l.Matrix("channel_mix_key.weight", n, l.NFF), l.Matrix("channel_mix_value.weight", l.NFF, n)
	open := l.square("channel_mix_receptance")
	src := l.shift(norm, "channel_mix_lerp_k.weight", 2,
		l.Vector("channel_mix_lerp_k.weight", n), l.Vector("channel_mix_lerp_r.weight", n))
	act, ffn := l.Act("embd", kernel.TokRows, n, key, open), l.Floats("ffn", kernel.TokRows, l.NFF)
	ffnAct, gate := l.Act("ffn", kernel.TokRows, l.NFF, value), l.Floats("rwkv.gate", kernel.TokRows, n)
	l.Add(kernel.ToAct{Act: l.Only(act, key), Src: src, Cols: n})
	l.Add(kernel.Matmul{
		Dst: ffn, Act: l.Only(act, key), Parts: []kernel.Part{{Matrix: key}}, Epilogue: kernel.Apply,
		Fn: kernel.ReLU2,
	})
	l.Add(kernel.ToAct{Act: l.Only(act, open), Src: src, SrcCol: n, Cols: n})
	l.Add(kernel.Matmul{
		Dst: gate, Act: l.Only(act, open), Parts: []kernel.Part{{Matrix: open}}, Epilogue: kernel.Apply,
		Fn: kernel.Sigmoid,
	})
	l.Add(kernel.ToAct{Act: ffnAct, Src: ffn, Cols: l.NFF})
	l.Add(kernel.Matmul{Dst: l.sublayerOut(), Act: ffnAct, Parts: []kernel.Part{{Matrix: value}}})
	l.Add(kernel.Gate{Dst: l.sublayerOut(), Src: gate, Cols: n, Fn: kernel.NoFn})
	l.Add(kernel.NormRows{
		Dst: l.X(), Src: l.sublayerOut(), Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1, Epilogue: kernel.Add,
	})
}
