package arch

import "github.com/quern-llm/quern/go/kernel"

// groupEps is the epsilon of the norm of what a head makes.
const groupEps = 64e-5

// timeMix adds to x what heads with a state make of norm(x): of a receptance, a key and a value, and, out of two
// matrices each, of decays, rates, the share that the first layer's value has in the value, and a gate of the
// result. Each has norm(x) as input with some of the token before.
func (l layer) timeMix(norm string) {
	n, ranks := l.cfg.NEmbd, l.cfg.RWKV
	const inputs = 6 // of receptance, decays, key, value, rates, gate
	used := inputs
	if ranks.Gate == 0 {
		used-- // the gate's is the last
	}
	src := l.shift(norm, "time_mix_lerp_fused.weight", used, l.vector("time_mix_lerp_fused.weight", n, 1, 1, used))
	input := func(i int, mats ...kernel.Matrix) kernel.Act {
		act := l.act("embd", kernel.TokRows, n, mats...)
		l.add(kernel.ToAct{Act: act, Src: src, SrcCol: i * n, Cols: n})
		return act
	}
	first := func(of string, rank int) kernel.Matrix { return l.matrix("time_mix_"+of+"1.weight", n, rank) }
	second := func(of string, rank, col int) kernel.Part {
		p := kernel.Part{Matrix: l.matrix("time_mix_"+of+"2.weight", rank, n), Col: col}
		if of != "g" {
			p.Bias = l.vector("time_mix_"+of+"0.weight", n)
		}
		return p
	}

	rkv, gates := l.floats("rwkv", kernel.TokRows, 3*n), l.floats("rwkv.gates", kernel.TokRows, 3*n)
	project := func(m kernel.Matrix, act kernel.Act, col int) {
		l.add(kernel.Matmul{Dst: rkv, Act: l.only(act, m), Parts: []kernel.Part{{Matrix: m, Col: col}}})
	}
	r, k, v := l.square("time_mix_receptance"), l.square("time_mix_key"), l.square("time_mix_value")
	project(r, input(0, r), 0)
	project(k, input(2, k), n)
	old := l.floats("rwkv.first", kernel.TokRows, n)
	if l.il == 0 {
		project(v, input(3, v), 2*n)
		l.add(kernel.NormRows{Dst: old, Src: rkv, SrcCol: 2 * n, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1})
	} else {
		share := first("v", ranks.Value)
		act := input(3, v, share)
		project(v, act, 2*n)
		l.lowRank("rwkv", act, share, kernel.Matmul{}, gates, second("v", ranks.Value, 2*n))
		l.add(kernel.Blend{Dst: rkv, DstCol: 2 * n, Src: old, By: gates, ByCol: 2 * n, Cols: n, Fn: kernel.Sigmoid})
	}
	w, a := first("w", ranks.Decay), first("a", ranks.Rate)
	l.lowRank("rwkv", input(1, w), w, kernel.Matmul{Softcap: 1}, gates, second("w", ranks.Decay, 0)) // tanh between
	l.lowRank("rwkv", input(4, a), a, kernel.Matmul{}, gates, second("a", ranks.Rate, n))

	y := l.floats("rwkv.y", kernel.TokRows, 2*n)
	heads := n / ranks.HeadDim
	group, offset := l.state(recurrent(kernel.WKVBytes(heads, ranks.HeadDim)))
	l.add(kernel.WKV{
		Dst: y, Src: rkv, Col: [3]int{0, n, 2 * n}, Gates: gates, NHead: heads, HeadDim: ranks.HeadDim, Group: group, Offset: offset,
		Direction: l.vector("time_mix_k_k.weight", n), Rate: l.vector("time_mix_k_a.weight", n),
		Bonus: l.vector("time_mix_r_k.weight", n),
	})
	made := kernel.NormRows{
		Dst: y, DstCol: n, Src: y, Cols: ranks.HeadDim, Segs: heads, Kind: kernel.NoNorm, Scale: 1, Epilogue: kernel.Add,
	}
	if !ranks.Bare || l.has("time_mix_ln.weight") {
		made.Kind, made.Eps, made.SegWeights = kernel.LayerNorm, groupEps, true
		made.Weight, made.Bias = l.vector("time_mix_ln.weight", n), l.vector("time_mix_ln.bias", n)
	}
	l.add(made)
	if ranks.Gate > 0 {
		g, gate := first("g", ranks.Gate), l.floats("rwkv.gate", kernel.TokRows, n)
		l.lowRank("rwkv", input(5, g), g, kernel.Matmul{Epilogue: kernel.Apply, Fn: kernel.Sigmoid}, gate, second("g", ranks.Gate, 0))
		l.add(kernel.Gate{Dst: y, DstCol: n, Src: gate, Cols: n, Fn: kernel.NoFn})
	}
	out := l.square("time_mix_output")
	act := l.act("rwkv", kernel.TokRows, n, out)
	l.add(kernel.ToAct{Act: act, Src: y, SrcCol: n, Cols: n})
	l.result(act, kernel.Part{Matrix: out}, "")
}

// channelMix adds to x value(relu(key(norm(x)))^2), where norm(x) has some of the token before.
func (l layer) channelMix(norm string) {
	n := l.cfg.NEmbd
	key, value := l.matrix("channel_mix_key.weight", n, l.NFF), l.matrix("channel_mix_value.weight", l.NFF, n)
	src := l.shift(norm, "channel_mix_lerp_k.weight", 1, l.vector("channel_mix_lerp_k.weight", n))
	act, ffn := l.act("embd", kernel.TokRows, n, key), l.floats("ffn", kernel.TokRows, l.NFF)
	ffnAct := l.act("ffn", kernel.TokRows, l.NFF, value)
	l.add(kernel.ToAct{Act: act, Src: src, Cols: n})
	l.add(kernel.Matmul{Dst: ffn, Act: act, Parts: []kernel.Part{{Matrix: key}}, Epilogue: kernel.Apply, Fn: kernel.ReLU2})
	l.add(kernel.ToAct{Act: ffnAct, Src: ffn, Cols: l.NFF})
	l.result(ffnAct, kernel.Part{Matrix: value}, "")
}

// square is a matrix as wide as the residual, and as high.
func (l layer) square(name string) kernel.Matrix {
	return l.matrix(name+".weight", l.cfg.NEmbd, l.cfg.NEmbd)
}

// shift has, for each of n results, the norm of x moved towards that of the token before, channel by channel, by
// shares, which are for one result or for several.
func (l layer) shift(norm, name string, n int, shares ...[]float32) kernel.Buf {
	width := l.cfg.NEmbd
	src, dst := l.floats("shift.in", kernel.TokRows, width), l.floats("shift", kernel.TokRows, n*width)
	l.normTo(src, l.x(), kernel.Store, norm)
	group, offset := l.state(recurrent(kernel.ConvBytes(width, 2)))
	taps := l.made(name+" as taps", 2*n*width)
	for i, at := 0, 0; i < len(shares) && taps != nil; i++ { // else there is no memory yet
		for _, share := range shares[i][:min(len(shares[i]), n*width)] {
			taps[2*at], taps[2*at+1] = share, 1-share
			at++
		}
	}
	l.add(kernel.Conv{Dst: dst, Src: src, Cols: width, Taps: 2, Results: n, Weight: taps, Group: group, Offset: offset})
	return dst
}

// rwkv reads the sizes of the time mixing.
func (k *keys) rwkv() {
	r := &k.c.RWKV
	r.HeadDim = k.int("wkv.head_size", 1, maxHeadDim)
	r.Decay = k.int("attention.decay_lora_rank", 1, maxEmbd)
	r.Rate = k.int("attention.iclr_lora_rank", 1, maxEmbd)
	r.Value = k.int("attention.value_residual_mix_lora_rank", 1, maxEmbd)
	r.Gate = k.intOr("attention.gate_lora_rank", 0, 0, maxEmbd)
	k.rwkvHeads()
}

// rwkvHeads checks that the heads of time mixing are of whole panels.
func (k *keys) rwkvHeads() {
	c, r := k.c, k.c.RWKV
	if r.HeadDim%kernel.Panel != 0 || c.NEmbd%r.HeadDim != 0 {
		k.fail("wkv.head_size", "%d, want a multiple of %d and a divisor of the embedding length %d", r.HeadDim, kernel.Panel, c.NEmbd)
	}
}
