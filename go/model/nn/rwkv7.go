package nn

import "github.com/quern-llm/quern/go/kernel"

// groupEps is the epsilon of the norm of the result of a head.
const groupEps = 64e-5

// TimeMix7 adds the time mixing of RWKV 7 of norm(x) (Peng et al. 2025, "RWKV-7 Goose"): heads with a state, from a
// receptance, a key, a value, and, by two matrices of low rank each, decays, in-context learning rates, the share of
// the first layer's value, and a gate. Each input is norm(x) mixed with that of the token before (token shift).
func (l Layer) TimeMix7(norm string) {
	n, ranks := l.Config.NEmbd, l.Config.RWKV
	const inputs = 6 // of receptance, decays, key, value, rates, gate
	used := inputs
	if ranks.Gate == 0 {
		used-- // the gate's is the last
	}
	src := l.shift(norm, "time_mix_lerp_fused.weight", used, l.Vector("time_mix_lerp_fused.weight", n, 1, 1, used))
	input := func(i int, mats ...kernel.Matrix) kernel.Act {
		act := l.Act("embd", kernel.TokRows, n, mats...)
		l.Add(kernel.ToAct{Act: act, Src: src, SrcCol: i * n, Cols: n})
		return act
	}
	first := func(of string, rank int) kernel.Matrix { return l.Matrix("time_mix_"+of+"1.weight", n, rank) }
	second := func(of string, rank, col int) kernel.Part {
		p := kernel.Part{Matrix: l.Matrix("time_mix_"+of+"2.weight", rank, n), Col: col}
		if of != "g" {
			p.Bias = l.Vector("time_mix_"+of+"0.weight", n)
		}
		return p
	}

	rkv, gates := l.Floats("rwkv", kernel.TokRows, 3*n), l.Floats("rwkv.gates", kernel.TokRows, 3*n)
	project := func(m kernel.Matrix, act kernel.Act, col int) {
		l.Add(kernel.Matmul{Dst: rkv, Act: l.Only(act, m), Parts: []kernel.Part{{Matrix: m, Col: col}}})
	}
	r, k, v := l.square("time_mix_receptance"), l.square("time_mix_key"), l.square("time_mix_value")
	project(r, input(0, r), 0)
	project(k, input(2, k), n)
	old := l.Floats("rwkv.first", kernel.TokRows, n)
	if l.Index == 0 {
		project(v, input(3, v), 2*n)
		l.Add(kernel.NormRows{
			Dst: old, Src: rkv, SrcCol: 2 * n, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
		})
	} else {
		share := first("v", ranks.Value)
		act := input(3, v, share)
		project(v, act, 2*n)
		l.lowRank("rwkv", act, share, kernel.Matmul{}, gates, second("v", ranks.Value, 2*n))
		l.Add(kernel.Blend{
			Dst: rkv, DstCol: 2 * n, Src: old, By: gates, ByCol: 2 * n, Cols: n, Fn: kernel.Sigmoid,
		})
	}
	w, a := first("w", ranks.Decay), first("a", ranks.Rate)
	l.lowRank("rwkv", input(1, w), w, kernel.Matmul{Softcap: 1}, gates, second("w", ranks.Decay, 0)) // tanh between
	l.lowRank("rwkv", input(4, a), a, kernel.Matmul{}, gates, second("a", ranks.Rate, n))

	y := l.Floats("rwkv.y", kernel.TokRows, 2*n)
	heads := n / ranks.HeadDim
	group, offset := l.state(recurrent(kernel.WKVBytes(heads, ranks.HeadDim)))
	l.Add(kernel.WKV{
		Dst: y, Src: rkv, Col: [3]int{0, n, 2 * n}, Gates: gates, NHead: heads, HeadDim: ranks.HeadDim, Group: group,
		Offset:    offset,
		Direction: l.Vector("time_mix_k_k.weight", n), Rate: l.Vector("time_mix_k_a.weight", n),
		Bonus: l.Vector("time_mix_r_k.weight", n),
	})
	made := kernel.NormRows{
		Dst: y, DstCol: n, Src: y, Cols: ranks.HeadDim, Segs: heads, Kind: kernel.NoNorm, Scale: 1,
		Epilogue: kernel.Add,
	}
	if !ranks.Bare || l.Has("time_mix_ln.weight") {
		made.Kind, made.Eps, made.SegWeights = kernel.LayerNorm, groupEps, true
		made.Weight, made.Bias = l.Vector("time_mix_ln.weight", n), l.Vector("time_mix_ln.bias", n)
	}
	l.Add(made)
	if ranks.Gate > 0 {
		g, gate := first("g", ranks.Gate), l.Floats("rwkv.gate", kernel.TokRows, n)
		l.lowRank("rwkv", input(5, g), g, kernel.Matmul{Epilogue: kernel.Apply, Fn: kernel.Sigmoid}, gate,
			second("g", ranks.Gate, 0))
		l.Add(kernel.Gate{Dst: y, DstCol: n, Src: gate, Cols: n, Fn: kernel.NoFn})
	}
	out := l.square("time_mix_output")
	act := l.Act("rwkv", kernel.TokRows, n, out)
	l.Add(kernel.ToAct{Act: act, Src: y, SrcCol: n, Cols: n})
	l.result(act, kernel.Part{Matrix: out}, "")
}

// ChannelMix7 adds value(relu(key(y))^2), with y = norm(x) mixed with that of the token before.
func (l Layer) ChannelMix7(norm string) {
	n := l.Config.NEmbd
	key, value := l.Matrix("channel_mix_key.weight", n, l.NFF), l.Matrix("channel_mix_value.weight", l.NFF, n)
	src := l.shift(norm, "channel_mix_lerp_k.weight", 1, l.Vector("channel_mix_lerp_k.weight", n))
	act, ffn := l.Act("embd", kernel.TokRows, n, key), l.Floats("ffn", kernel.TokRows, l.NFF)
	ffnAct := l.Act("ffn", kernel.TokRows, l.NFF, value)
	l.Add(kernel.ToAct{Act: act, Src: src, Cols: n})
	l.Add(kernel.Matmul{
		Dst: ffn, Act: act, Parts: []kernel.Part{{Matrix: key}}, Epilogue: kernel.Apply, Fn: kernel.ReLU2,
	})
	l.Add(kernel.ToAct{Act: ffnAct, Src: ffn, Cols: l.NFF})
	l.result(ffnAct, kernel.Part{Matrix: value}, "")
}

// square returns a matrix of NEmbd columns and rows.
func (l Layer) square(name string) kernel.Matrix {
	return l.Matrix(name+".weight", l.Config.NEmbd, l.Config.NEmbd)
}

// shift is token shift: a buffer with, for each of n results, norm(x) moved towards that of the token before, per
// channel, by shares, which are for one result or for several.
func (l Layer) shift(norm, name string, n int, shares ...[]float32) kernel.Buf {
	width := l.Config.NEmbd
	src, dst := l.Floats("shift.in", kernel.TokRows, width), l.Floats("shift", kernel.TokRows, n*width)
	l.normTo(src, l.X(), kernel.Store, norm)
	group, offset := l.state(recurrent(kernel.ConvBytes(width, 2)))
	taps := l.made(name+" as taps", 2*n*width)
	for i, at := 0, 0; i < len(shares) && taps != nil; i++ { // else there is no memory yet
		for _, share := range shares[i][:min(len(shares[i]), n*width)] {
			taps[2*at], taps[2*at+1] = share, 1-share
			at++
		}
	}
	l.Add(kernel.Conv{
		Dst: dst, Src: src, Cols: width, Taps: 2, Results: n, Weight: taps, Group: group, Offset: offset,
	})
	return dst
}

// RWKV7 reads the sizes of time mixing.
func (k *Keys) RWKV7() {
	r := &k.Config.RWKV
	r.HeadDim = k.Int("wkv.head_size", 1, MaxHeadDim)
	r.Decay = k.Int("attention.decay_lora_rank", 1, MaxEmbd)
	r.Rate = k.Int("attention.iclr_lora_rank", 1, MaxEmbd)
	r.Value = k.Int("attention.value_residual_mix_lora_rank", 1, MaxEmbd)
	r.Gate = k.IntOr("attention.gate_lora_rank", 0, 0, MaxEmbd)
	k.rwkvHeads()
}

// rwkvHeads checks that heads are whole panels.
func (k *Keys) rwkvHeads() {
	c, r := k.Config, k.Config.RWKV
	if r.HeadDim%kernel.Panel != 0 || c.NEmbd%r.HeadDim != 0 {
		k.Fail("wkv.head_size", "%d, want a multiple of %d and a divisor of the embedding length %d", r.HeadDim,
			kernel.Panel, c.NEmbd)
	}
}
