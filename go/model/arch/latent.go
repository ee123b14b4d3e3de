package arch

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// latent says what attention over latents has besides.
type latent struct {
	gate  gateFrom // gateOwn or gateHead: the result is multiplied by the sigmoid of a projection
	sinks bool     // a score of each head that takes weight and has no value: attn_sinks
}

// latentAttention is attention whose keys and values are products of one vector for each
// position, the latent, which is all that is kept (DeepSeek-AI 2024, "DeepSeek-V2"): MLA.
//
// Of each head, k = [W_k c; r] and v = W_v c, with the latent c and a rotated part r that all heads
// share. A score q.k is [W_k' q; q_r].[c; r], and a sum of values is W_v times that of latents. So
// both matrices are absorbed into queries and results, and what is left is attention with one
// key-value head, whose keys are [c; r] and whose values are the first channels of these.
func (l layer) latentAttention(a latent) sublayer {
	c, n := l.cfg, l.latents()
	plain := n.KeyDim - n.RopeDim // channels of a query that are not rotated
	heads := kernel.Spread{N: l.NHead, Step: l.HeadDim}
	results := kernel.Spread{N: l.NHead, Step: l.ValueDim}
	first, query := l.latentQueries()
	in := l.matrix("attn_kv_a_mqa.weight", c.NEmbd, l.HeadDim)
	keys, values := l.absorbed(plain)
	out := l.matrix("attn_output.weight", l.NHead*n.ValueDim, c.NEmbd)
	index := l.index()
	takes := append([]kernel.Matrix{first, in}, index.in...)
	var gate kernel.Matrix
	switch a.gate {
	case gateOwn:
		gate = l.matrix("attn_gate.weight", c.NEmbd, l.NHead*n.ValueDim)
	case gateHead:
		gate = l.headGate()
	}
	if a.gate != gateNone {
		takes = append(takes, gate)
	}
	return sublayer{in: takes, run: func(act kernel.Act) {
		qkv := l.floats("qkv", kernel.TokRows, (l.NHead+1)*l.HeadDim)
		key := l.NHead * l.HeadDim // where it begins
		l.add(kernel.Matmul{Dst: qkv, Act: l.only(act, in), Parts: []kernel.Part{{Matrix: in, Col: key}}})
		l.add(kernel.NormRows{
			Dst: qkv, Src: qkv, DstCol: key, SrcCol: key, Cols: n.Rank, Segs: 1, Eps: c.Eps, Scale: 1,
			Weight: l.vector("attn_kv_a_norm.weight", n.Rank),
		})
		if norm := "attn_k_norm.weight"; l.has(norm) { // of what is rotated
			l.add(kernel.NormRows{
				Dst: qkv, Src: qkv, DstCol: key + n.Rank, SrcCol: key + n.Rank, Cols: n.RopeDim, Segs: 1, Eps: c.Eps, Scale: 1,
				Weight: l.vector(norm, n.RopeDim),
			})
		}
		// A query lies such that its rotated part is where it belongs, and before it what is absorbed.
		low := l.queryInput(l.only(act, first), first, append(index.low, query)...)
		l.add(kernel.Matmul{
			Dst: qkv, Act: l.only(low, query), Heads: heads,
			Parts: []kernel.Part{{Matrix: query, Col: n.Rank - plain}},
		})
		queries := l.headAct(plain, keys)
		l.add(kernel.ToAct{Act: queries, Src: qkv, Rows: kernel.HeadRows, Cols: plain, SrcCol: n.Rank - plain, Heads: heads})
		l.add(kernel.Matmul{Dst: qkv, Act: queries, Rows: kernel.HeadRows, Parts: []kernel.Part{{Matrix: keys}}, Heads: heads})

		group, offset, tiers := l.latentPlace()
		shape := kernel.Heads{
			NHead: l.NHead, NHeadKV: 1, HeadDim: l.HeadDim, ValueDim: l.ValueDim, InKeys: true, KV: l.kv, QKV: qkv,
			Col: [3]int{0, key}, Group: group, KVOffset: offset, Tiers: tiers,
		}
		store := l.store(attention{}, shape, balance{})
		store.RopeAt = n.Rank
		l.add(store)
		att := l.floats("att", kernel.TokRows, l.NHead*l.ValueDim)
		chosen := index.choose(act, low)
		attend := kernel.Attend{Heads: shape, Dst: att, Window: l.Window, Best: n.Index.Best, Chosen: chosen}
		if a.sinks {
			attend.Sinks = l.vector("attn_sinks.weight", l.NHead)
		}
		l.add(attend)

		latents := l.headAct(l.ValueDim, values)
		y := l.floats("att.values", kernel.TokRows, l.NHead*n.ValueDim)
		l.add(kernel.ToAct{Act: latents, Src: att, Rows: kernel.HeadRows, Cols: l.ValueDim, Heads: results})
		l.add(kernel.Matmul{
			Dst: y, Act: latents, Rows: kernel.HeadRows, Parts: []kernel.Part{{Matrix: values}},
			Heads: kernel.Spread{N: l.NHead, Step: n.ValueDim},
		})
		switch a.gate {
		case gateOwn:
			l.open(act, gate, kernel.Gate{Dst: y, Cols: l.NHead * n.ValueDim, Fn: kernel.Sigmoid})
		case gateHead:
			l.open(act, gate, kernel.Gate{Dst: y, Cols: n.ValueDim, Segs: l.NHead, Fn: kernel.Sigmoid})
		}
		outAct := l.act("att", kernel.TokRows, l.NHead*n.ValueDim, out)
		l.add(kernel.ToAct{Act: outAct, Src: y, Cols: l.NHead * n.ValueDim})
		l.result(outAct, kernel.Part{Matrix: out}, "")
	}}
}

// latents is the sizes of the layer's attention.
func (l layer) latents() Latent {
	if l.Window > 0 && l.cfg.WindowLatent.Rank > 0 {
		return l.cfg.WindowLatent
	}
	return l.cfg.Latent
}

// latentPlace has memory for the latents of the layer.
func (l layer) latentPlace() (group, offset int, tiers []kernel.Tier) {
	bytes := func(kv kernel.KVTypes) int { return kernel.KVBytes(kv, 1, l.HeadDim, 0) }
	if l.Window > 0 {
		group, offset = l.state(kernel.Group{Name: fmt.Sprintf("window %d", l.Window), Bytes: bytes(l.kv), Window: l.Window})
		return group, offset, nil
	}
	return l.aged(kernel.Group{Name: "attention", Bytes: bytes(l.kv)}, bytes)
}

// latentQueries binds the projection of queries, of which small models have one matrix and
// others two of lower rank, with a norm between them. first is what multiplies the layer's
// input.
func (l layer) latentQueries() (first, query kernel.Matrix) {
	c, n := l.cfg, l.latents()
	width := l.NHead * n.KeyDim
	if !l.lowQueries() {
		query = l.matrix("attn_q.weight", c.NEmbd, width)
		return query, query
	}
	return l.matrix("attn_q_a.weight", c.NEmbd, n.QueryRank), l.matrix("attn_q_b.weight", n.QueryRank, width)
}

// lowQueries says whether queries have two matrices.
func (l layer) lowQueries() bool {
	return l.latents().QueryRank > 0 && !l.has("attn_q.weight")
}

// queryInput returns what the last matrices of queries multiply, given what the first does.
func (l layer) queryInput(act kernel.Act, first kernel.Matrix, last ...kernel.Matrix) kernel.Act {
	n := l.latents()
	if !l.lowQueries() {
		return act
	}
	low := l.floats("q.low", kernel.TokRows, n.QueryRank)
	lowAct := l.act("q.low", kernel.TokRows, n.QueryRank, last...)
	l.add(kernel.Matmul{Dst: low, Act: act, Parts: []kernel.Part{{Matrix: first}}})
	l.add(kernel.Norm{
		Act: lowAct, Src: low, Cols: n.QueryRank, Eps: l.cfg.Eps, Weight: l.vector("attn_q_a_norm.weight", n.QueryRank),
	})
	return lowAct
}

// absorbed binds the matrices that make keys and values of latents, one for each head: that of
// keys transposed. Files from before there was a cache of latents have both in attn_kv_b.
func (l layer) absorbed(plain int) (keys, values kernel.Matrix) {
	n := l.latents()
	old := "attn_kv_b.weight"
	if !l.has("attn_k_b.weight") && l.has(old) {
		of := plain + n.ValueDim
		keys := must(l.w.Transposed(l.blk+old, n.Rank, of, 0, plain, l.NHead))
		values := l.headRows(old, n.Rank, of, plain, n.ValueDim, l.NHead)
		values.Out, values.N = n.ValueDim, l.NHead // whole panels of each: they lie as they would apart
		return keys, values
	}
	return l.matrices("attn_k_b.weight", plain, n.Rank, l.NHead), l.matrices("attn_v_b.weight", n.Rank, n.ValueDim, l.NHead)
}

// headAct returns activations of each head, as products with m take them.
func (l layer) headAct(width int, m kernel.Matrix) kernel.Act { return l.groupAct(l.NHead, width, m) }

// groupAct returns those of each of n groups of heads.
func (l layer) groupAct(n, width int, m kernel.Matrix) kernel.Act {
	kind := m.Type.Act()
	use := fmt.Sprintf("%d heads", n)
	return kernel.Act{kind: l.buf(use, kernel.BufSpec{Kind: kind, Rows: kernel.HeadRows, Width: kernel.Pad(width), NHead: n})}
}
