package nn

import (
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// ChannelDelta reads the sizes of delta nets with a decay per channel, and which layers are such: their NHeadKV is 0.
func (k *Keys) ChannelDelta() {
	c := k.Config
	c.NTap = k.Int("ssm.conv_kernel", 2, MaxTap)
	dim := k.Int("kda.head_dim", 1, MaxHeadDim)
	k.Each("attention.head_count_kv", 0, MaxHead, func(l *LayerConfig, n int) { l.NHeadKV = min(n, 1) })
	if dim%kernel.Panel != 0 {
		k.Fail("kda.head_dim", "%d, want a multiple of %d", dim, kernel.Panel)
	}
	heads := c.Layers[0].NHead
	if i := slices.IndexFunc(c.Layers, func(l LayerConfig) bool { return l.NHead != heads }); i > 0 {
		k.Fail("attention.head_count",
			"%d for layer 0 and %d for layer %d, layers that differ in this are not supported", heads,
			c.Layers[i].NHead, i)
	}
	c.Delta = Delta{NHead: heads, NHeadKey: heads, KeyDim: dim, ValueDim: dim}
}

// DeltaOrLatents is a delta net with a decay per channel, or, in layers with KV heads, latent attention.
func (l Layer) DeltaOrLatents(a LatentAttention) Sublayer {
	if l.NHeadKV == 0 {
		return l.ChannelDelta()
	}
	return l.LatentAttention(a)
}

// ChannelDelta is attn_output(norm(delta(q, k, v)) * sigmoid(g_b(g_a(input)))) (Kimi Team 2025, "Kimi Linear"), with q
// from silu(conv(attn_q(input))), k and v likewise, q and k of length 1, and a decay per channel of keys from
// f_b(f_a(input)). Some models have one matrix in place of f_b and f_a, and of g_b and g_a.
func (l Layer) ChannelDelta() Sublayer {
	c, n := l.Config, l.Config.Delta
	width := n.NHead * n.KeyDim // of queries, of keys, of values
	qkv := []kernel.Part{
		{Matrix: l.Matrix("attn_q.weight", c.NEmbd, width)},
		{Matrix: l.Matrix("attn_k.weight", c.NEmbd, width), Col: width},
		{Matrix: l.Matrix("attn_v.weight", c.NEmbd, width), Col: 2 * width},
	}
	decay, gate := l.inRanks("ssm_f", n.KeyDim, width), l.inRanks("ssm_g", n.KeyDim, width) // of the result
	beta := l.Matrix("ssm_beta.weight", c.NEmbd, n.NHead)
	out := l.Matrix("attn_output.weight", width, c.NEmbd)
	return Sublayer{In: append(matrices(qkv), decay.first, gate.first, beta), Run: func(act kernel.Act) {
		src := l.Floats("delta.in", kernel.TokRows, 3*width)
		mixed := l.Floats("delta.qkv", kernel.TokRows, 3*width)
		gates := l.Floats("delta.gates", kernel.TokRows, kernel.Pad(n.NHead)+width)
		l.Add(kernel.Matmul{Dst: src, Act: l.Only(act, matrices(qkv)...), Parts: qkv})
		l.Add(kernel.Matmul{Dst: gates, Act: l.Only(act, beta), Parts: []kernel.Part{{Matrix: beta}}})
		decay.run(l, "delta.decay", act, gates, kernel.Pad(n.NHead))
		y, g := l.Floats("delta", kernel.TokRows, width), l.Floats("delta.gate", kernel.TokRows, width)
		gate.run(l, "delta.gate", act, g, 0)

		group, offset := l.state(recurrent(kernel.ConvBytes(3*width, c.NTap)))
		l.Add(kernel.Conv{
			Dst: mixed, Src: src, Cols: 3 * width, Taps: c.NTap, Group: group, Offset: offset, Epilogue: kernel.Apply,
			Fn:     kernel.SiLU,
			Weight: l.joined("ssm_conv1d_qkv", c.NTap*width, l.conv("q"), l.conv("k"), l.conv("v")),
		})
		length := l.unitLength(mixed, 2*n.NHead)
		group, offset = l.state(recurrent(kernel.DeltaBytes(n.NHead, n.KeyDim, n.ValueDim)))
		l.Add(kernel.Delta{
			Dst: y, Src: mixed, Col: [3]int{0, width, 2 * width}, NHead: n.NHead, NHeadKey: n.NHead, KeyDim: n.KeyDim,
			ValueDim: n.ValueDim,
			Gates:    gates, GateHeads: kernel.Pad(n.NHead), ByChannel: true, Least: n.LowerBound, Scale: length,
			Group:  group,
			Offset: offset,
			Bias:   l.Vector("ssm_dt.bias", width), Rate: l.decayRates(),
		})
		l.deltaResult(kernel.Gate{Dst: y, Src: g, Cols: width, Fn: kernel.Sigmoid}, out)
	}}
}

// decayRates returns the rate of decay per head. Bounded decays have it with the opposite sign, which some files lack.
func (l Layer) decayRates() []float32 {
	n, name := l.Config.Delta, "ssm_a"
	if !n.Signed {
		return l.Vector(name, 1, n.NHead)
	}
	rates := l.Vector(name, n.NHead)
	if n.LowerBound == 0 {
		return rates
	}
	return l.constants(name+" of bounded decays", kernel.Pad(n.NHead),
		func(i int) float64 { return -float64(rates[i]) })
}

// inRanks is a matrix, or a product of two of lower rank.
type inRanks struct{ first, second kernel.Matrix }

func (l Layer) inRanks(name string, rank, out int) inRanks {
	embd := l.Config.NEmbd
	if second := name + "_b.weight"; l.Has(second) {
		return inRanks{l.Matrix(name+"_a.weight", embd, rank), l.Matrix(second, rank, out)}
	}
	if whole := name + ".weight"; l.Has(whole) {
		return inRanks{first: l.Matrix(whole, embd, out)}
	}
	return inRanks{first: l.Matrix(name+"_a.weight", embd, out)}
}

// run puts the product with the input into dst, from column col on.
func (m inRanks) run(l Layer, use string, act kernel.Act, dst kernel.Buf, col int) {
	if m.second.Out == 0 {
		l.Add(kernel.Matmul{
			Dst: dst, Act: l.Only(act, m.first), Parts: []kernel.Part{{Matrix: m.first, Col: col}},
		})
		return
	}
	l.lowRank(use, act, m.first, kernel.Matmul{}, dst, kernel.Part{Matrix: m.second, Col: col})
}

// conv returns the weights of the convolution of queries, keys or values.
func (l Layer) conv(of string) []float32 {
	n := l.Config.Delta
	return l.Vector("ssm_conv1d_"+of+".weight", l.Config.NTap, 1, n.NHead*n.KeyDim)
}

// joined returns vectors of n floats one after the other; nil without memory.
func (l Layer) joined(name string, n int, vectors ...[]float32) []float32 {
	all := l.made(name, n*len(vectors))
	if all == nil {
		return nil
	}
	for i, v := range vectors {
		copy(all[i*n:(i+1)*n], v[:n])
	}
	return all
}

// BoundedDecays reads the lower bound of the logarithm of decays.
func (k *Keys) BoundedDecays() {
	const safe = "kda.safe_gate"
	if !k.BoolOr(safe, true) {
		k.Fail(safe, "false: decays without a bound are not supported by %s", k.Config.Arch)
	}
	const least = "kda.gate_lower_bound"
	if k.Config.Delta.LowerBound = float32(k.Float(least, -100, 0)); k.Config.Delta.LowerBound == 0 {
		k.Fail(least, "0, want less")
	}
}
