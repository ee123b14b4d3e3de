package nn

import (
	"cmp"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// DeltaNet says how a gated delta net is stored.
type DeltaNet struct {
	// The value heads of a key head are neighbours, and ssm_ba has their gates. Else value
	// head h has key head h mod the number of them, and there are ssm_beta and ssm_alpha.
	Grouped bool
	Spans   bool // attention between is to the best spans of positions
}

// DeltaNet is ssm_out(norm(delta(q, k, v)) * gate(attn_gate(input))) (Yang et al. 2024, "Gated Delta Networks"), with
// q, k and v from silu(conv(attn_qkv(input))), q and k of length 1.
func (l Layer) DeltaNet(d DeltaNet) Sublayer {
	c, n := l.Config, l.Config.Delta
	nKey, nValue := n.NHeadKey*n.KeyDim, n.NHead*n.ValueDim
	nQKV := 2*nKey + nValue
	in := l.deltaInput(nQKV, nValue)
	gates, gateHeads := l.deltaGates(d)
	out := l.Matrix("ssm_out.weight", nValue, c.NEmbd)
	h := Sublayer{In: append(matrices(in), matrices(gates)...)}
	h.Run = func(act kernel.Act) {
		src := l.Floats("delta.in", kernel.TokRows, kernel.Pad(nQKV)+nValue)
		gate := l.Floats("delta.gates", kernel.TokRows, 2*kernel.Pad(n.NHead))
		qkv := l.Floats("delta.qkv", kernel.TokRows, nQKV)
		y := l.Floats("delta", kernel.TokRows, nValue)
		for parts := range slices.Chunk(in, kernel.MaxParts) {
			l.Add(kernel.Matmul{Dst: src, Act: l.Only(act, matrices(parts)...), Parts: parts})
		}
		l.Add(kernel.Matmul{Dst: gate, Act: l.Only(act, matrices(gates)...), Parts: gates})

		group, offset := l.state(recurrent(kernel.ConvBytes(nQKV, c.NTap)))
		l.Add(kernel.Conv{
			Dst: qkv, Src: src, Cols: nQKV, Taps: c.NTap, Group: group, Offset: offset, Epilogue: kernel.Apply,
			Fn:     kernel.SiLU,
			Weight: l.Vector("ssm_conv1d.weight", c.NTap, nQKV),
		})
		length := l.unitLength(qkv, 2*n.NHeadKey)

		group, offset = l.state(recurrent(kernel.DeltaBytes(n.NHead, n.KeyDim, n.ValueDim)))
		l.Add(kernel.Delta{
			Dst: y, Src: qkv, Col: [3]int{0, nKey, 2 * nKey}, NHead: n.NHead, NHeadKey: n.NHeadKey, KeyDim: n.KeyDim,
			ValueDim: n.ValueDim, Tiled: !d.Grouped, Gates: gate, GateHeads: gateHeads, Scale: length, Group: group,
			Offset: offset,
			Bias:   l.Vector("ssm_dt.bias", n.NHead), Rate: l.Vector("ssm_a", n.NHead),
		})
		l.deltaResult(kernel.Gate{Dst: y, Src: src, SrcCol: kernel.Pad(nQKV), Cols: nValue,
			Fn: cmp.Or(n.GateFn, kernel.SiLU)}, out)
	}
	return h
}

// deltaResult normalises the result of each head, gates it, and adds its product with out to the residual.
func (l Layer) deltaResult(gate kernel.Gate, out kernel.Matrix) {
	n, y := l.Config.Delta, gate.Dst
	l.Add(kernel.NormRows{
		Dst: y, Src: y, Cols: n.ValueDim, Segs: n.NHead, Eps: cmp.Or(l.Config.LinearEps, l.Config.Eps),
		Scale:  1,
		Weight: l.Vector("ssm_norm.weight", n.ValueDim),
	})
	l.Add(gate)
	act := l.Act("delta", kernel.TokRows, gate.Cols, out)
	l.Add(kernel.ToAct{Act: act, Src: y, Cols: gate.Cols})
	l.result(act, kernel.Part{Matrix: out}, "")
}

// unitLength scales the first heads of queries and keys to length 1, by an RMS norm with a sum in place of the mean. It
// returns 1/sqrt(KeyDim).
func (l Layer) unitLength(buf kernel.Buf, heads int) float32 {
	n, dim := l.Config.Delta, l.Config.Delta.KeyDim
	length := float32(1 / math.Sqrt(float64(dim)))
	// Longer keys write more, and read more of it: a state is the smaller for it, and queries are longer.
	scale := length * float32(math.Sqrt(float64(cmp.Or(n.Beta, 1))))
	l.Add(kernel.NormRows{
		Dst: buf, Src: buf, Cols: dim, Segs: heads, Eps: cmp.Or(n.Eps, l.Config.Eps) / float32(dim), Scale: scale,
	})
	return length
}

// DeltaOrAttention is a delta net, or, in layers with KV heads, attention with a gate in the query projection.
func (l Layer) DeltaOrAttention(d DeltaNet) Sublayer {
	if l.NHeadKV == 0 {
		return l.DeltaNet(d)
	}
	return l.Attention(Attention{QKNorm: NormHead, Gate: GateQuery, Spans: d.Spans})
}

// deltaInput returns the projections of queries, keys and values, followed by that of the gate. Early files of Qwen 3
// Next have all in ssm_in, by key heads.
func (l Layer) deltaInput(nQKV, nValue int) []kernel.Part {
	embd, n, old := l.Config.NEmbd, l.Config.Delta, "ssm_in.weight"
	gate := kernel.Pad(nQKV)
	if !l.Has(old) {
		return []kernel.Part{
			{Matrix: l.Matrix("attn_qkv.weight", embd, nQKV)},
			{Matrix: l.Matrix("attn_gate.weight", embd, nValue), Col: gate},
		}
	}
	k, v := n.KeyDim, nValue/n.NHeadKey // rows of a key head
	part := func(from, rows, col int) kernel.Part {
		m := l.headRows(old, embd, 2*k+2*v, from, rows, n.NHeadKey)
		return kernel.Part{Matrix: m, Col: col}
	}
	return []kernel.Part{
		part(0, k, 0), part(k, k, n.NHeadKey*k), part(2*k, v, 2*n.NHeadKey*k), part(2*k+v, v, gate),
	}
}

// matrices returns the matrices of parts.
func matrices(parts []kernel.Part) []kernel.Matrix {
	var m []kernel.Matrix
	for _, p := range parts {
		m = append(m, p.Matrix)
	}
	return m
}

// deltaGates returns the projections of the two gates of value heads, as kernel.Delta takes them: for a number of heads
// one gate, then the other.
func (l Layer) deltaGates(d DeltaNet) (parts []kernel.Part, heads int) {
	embd, n := l.Config.NEmbd, l.Config.Delta
	if d.Grouped {
		return []kernel.Part{{Matrix: l.Matrix("ssm_ba.weight", embd, 2*n.NHead)}}, n.NHead / n.NHeadKey
	}
	heads = kernel.Pad(n.NHead)
	return []kernel.Part{
		{Matrix: l.Matrix("ssm_beta.weight", embd, n.NHead)},
		{Matrix: l.Matrix("ssm_alpha.weight", embd, n.NHead), Col: heads},
	}, heads
}
