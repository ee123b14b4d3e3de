package nn

import (
	"cmp"
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// LatentAttention says what latent attention has besides its projections.
type LatentAttention struct {
	Gate  GateKind // GateChannel or GateHead: the result is multiplied by the sigmoid of a projection
	Sinks bool     // a score of each head that takes weight and has no value: attn_sinks
}

// LatentAttention is multi-head latent attention (MLA; DeepSeek-AI 2024, "DeepSeek-V2"): keys and values are products
// of one vector per position, the latent, and only that is cached.
//
// Of each head, k = [W_k c; r] and v = W_v c, with the latent c and a rotated part r that all heads share. A score q.k
// is [W_k' q; q_r].[c; r], and a sum of values is W_v times the sum of latents. So both matrices are absorbed into
// queries and results. What remains is attention with one KV head, whose keys are [c; r] and whose values are the first
// channels of these.
func (l Layer) LatentAttention(a LatentAttention) Sublayer {
	c, n := l.Config, l.latents()
	plain := n.KeyDim - n.RopeDim // channels of a query that are not rotated
	heads := kernel.Spread{N: l.NHead, Step: l.HeadDim}
	results := kernel.Spread{N: l.NHead, Step: l.ValueDim}
	first, query := l.latentQueries()
	in := l.Matrix("attn_kv_a_mqa.weight", c.NEmbd, l.HeadDim)
	keys, values := l.absorbed(plain)
	out := l.Matrix("attn_output.weight", l.NHead*n.ValueDim, c.NEmbd)
	index := l.index()
	takes := append([]kernel.Matrix{first, in}, index.in...)
	var gate kernel.Matrix
	switch a.Gate {
	case GateChannel:
		gate = l.Matrix("attn_gate.weight", c.NEmbd, l.NHead*n.ValueDim)
	case GateHead:
		gate = l.headGate()
	}
	if a.Gate != GateNone {
		takes = append(takes, gate)
	}
	return Sublayer{In: takes, Run: func(act kernel.Act) {
		qkv := l.Floats("qkv", kernel.TokRows, (l.NHead+1)*l.HeadDim)
		key := l.NHead * l.HeadDim // where it begins
		l.Add(kernel.Matmul{Dst: qkv, Act: l.Only(act, in), Parts: []kernel.Part{{Matrix: in, Col: key}}})
		l.Add(kernel.NormRows{
			Dst: qkv, Src: qkv, DstCol: key, SrcCol: key, Cols: n.Rank, Segs: 1,
			Eps: cmp.Or(n.Eps, c.Eps), Scale: 1,
			Weight: l.Vector("attn_kv_a_norm.weight", n.Rank),
		})
		if norm := "attn_k_norm.weight"; l.Has(norm) { // of what is rotated
			l.Add(kernel.NormRows{
				Dst: qkv, Src: qkv, DstCol: key + n.Rank, SrcCol: key + n.Rank, Cols: n.RopeDim, Segs: 1, Eps: c.Eps,
				Scale:  1,
				Weight: l.Vector(norm, n.RopeDim),
			})
		}
		// A query lies such that its rotated part is where it belongs, and before it what is absorbed.
		low := l.queryInput(l.Only(act, first), first, append(index.low, query)...)
		l.Add(kernel.Matmul{
			Dst: qkv, Act: l.Only(low, query), Heads: heads,
			Parts: []kernel.Part{{Matrix: query, Col: n.Rank - plain}},
		})
		queries := l.headAct(plain, keys)
		l.Add(kernel.ToAct{
			Act: queries, Src: qkv, Rows: kernel.HeadRows, Cols: plain, SrcCol: n.Rank - plain,
			Heads: heads,
		})
		l.Add(kernel.Matmul{
			Dst: qkv, Act: queries, Rows: kernel.HeadRows, Parts: []kernel.Part{{Matrix: keys}},
			Heads: heads,
		})

		group, offset, tiers := l.latentPlace()
		shape := kernel.Heads{
			NHead: l.NHead, NHeadKV: 1, HeadDim: l.HeadDim, ValueDim: l.ValueDim, InKeys: true, KV: l.kv, QKV: qkv,
			Col: [3]int{0, key}, Group: group, KVOffset: offset, Tiers: tiers,
		}
		store := l.store(Attention{}, shape, balance{})
		store.RopeAt = n.Rank
		l.Add(store)
		att := l.Floats("att", kernel.TokRows, l.NHead*l.ValueDim)
		chosen := index.choose(act, low)
		attend := kernel.Attend{Heads: shape, Dst: att, Window: l.Window, Best: n.Index.TopK, Chosen: chosen}
		if a.Sinks {
			attend.Sinks = l.Vector("attn_sinks.weight", l.NHead)
		}
		l.Add(attend)

		latents := l.headAct(l.ValueDim, values)
		y := l.Floats("att.values", kernel.TokRows, l.NHead*n.ValueDim)
		l.Add(kernel.ToAct{Act: latents, Src: att, Rows: kernel.HeadRows, Cols: l.ValueDim, Heads: results})
		l.Add(kernel.Matmul{
			Dst: y, Act: latents, Rows: kernel.HeadRows, Parts: []kernel.Part{{Matrix: values}},
			Heads: kernel.Spread{N: l.NHead, Step: n.ValueDim},
		})
		switch a.Gate {
		case GateChannel:
			l.open(act, gate, kernel.Gate{Dst: y, Cols: l.NHead * n.ValueDim, Fn: kernel.Sigmoid})
		case GateHead:
			l.open(act, gate, kernel.Gate{Dst: y, Cols: n.ValueDim, Segs: l.NHead, Fn: kernel.Sigmoid})
		}
		outAct := l.Act("att", kernel.TokRows, l.NHead*n.ValueDim, out)
		l.Add(kernel.ToAct{Act: outAct, Src: y, Cols: l.NHead * n.ValueDim})
		l.result(outAct, kernel.Part{Matrix: out}, "")
	}}
}

// latents is the sizes of the layer's attention.
func (l Layer) latents() Latent {
	if l.Window > 0 && l.Config.WindowLatent.Rank > 0 {
		return l.Config.WindowLatent
	}
	return l.Config.Latent
}

// latentPlace allocates the latents of the layer.
func (l Layer) latentPlace() (group, offset int, tiers []kernel.Tier) {
	bytes := func(kv kernel.KVTypes) int { return kernel.KVBytes(kv, 1, l.HeadDim, 0) }
	if l.Window > 0 {
		group, offset = l.state(kernel.Group{
			Name: fmt.Sprintf("window %d", l.Window), Bytes: bytes(l.kv), Window: l.Window,
		})
		return group, offset, nil
	}
	return l.aged(kernel.Group{Name: "attention", Bytes: bytes(l.kv)}, bytes)
}

// latentQueries returns the projections of queries: one matrix in small models, else two of lower rank with a norm
// between them. first multiplies the input of the layer.
func (l Layer) latentQueries() (first, query kernel.Matrix) {
	c, n := l.Config, l.latents()
	width := l.NHead * n.KeyDim
	if !l.lowQueries() {
		query = l.Matrix("attn_q.weight", c.NEmbd, width)
		return query, query
	}
	return l.Matrix("attn_q_a.weight", c.NEmbd, n.QueryRank), l.Matrix("attn_q_b.weight", n.QueryRank, width)
}

// lowQueries reports whether queries have two matrices.
func (l Layer) lowQueries() bool {
	return l.latents().QueryRank > 0 && !l.Has("attn_q.weight")
}

// queryInput returns the input of the last matrices of queries, given that of the first.
func (l Layer) queryInput(act kernel.Act, first kernel.Matrix, last ...kernel.Matrix) kernel.Act {
	n := l.latents()
	if !l.lowQueries() {
		return act
	}
	low := l.Floats("q.low", kernel.TokRows, n.QueryRank)
	lowAct := l.Act("q.low", kernel.TokRows, n.QueryRank, last...)
	l.Add(kernel.Matmul{Dst: low, Act: act, Parts: []kernel.Part{{Matrix: first}}})
	l.Add(kernel.Norm{
		Act: lowAct, Src: low, Cols: n.QueryRank, Eps: cmp.Or(n.Eps, l.Config.Eps),
		Weight: l.Vector("attn_q_a_norm.weight", n.QueryRank),
	})
	return lowAct
}

// absorbed returns the matrices that make keys and values of latents, one per head; that of keys is transposed. Old
// files have both in attn_kv_b.
func (l Layer) absorbed(plain int) (keys, values kernel.Matrix) {
	n := l.latents()
	old := "attn_kv_b.weight"
	if !l.Has("attn_k_b.weight") && l.Has(old) {
		of := plain + n.ValueDim
		keys := must(l.weights.Transposed(l.prefix+old, n.Rank, of, 0, plain, l.NHead))
		return keys, l.eachHead(old, n.Rank, of, plain, n.ValueDim, l.NHead)
	}
	return l.matrices("attn_k_b.weight", plain, n.Rank, l.NHead),
		l.matrices("attn_v_b.weight", n.Rank, n.ValueDim, l.NHead)
}

// headAct returns activations per head, as products with m take them.
func (l Layer) headAct(width int, m kernel.Matrix) kernel.Act { return l.groupAct(l.NHead, width, m) }

// groupAct returns activations per group of heads.
func (l Layer) groupAct(n, width int, m kernel.Matrix) kernel.Act {
	kind := m.Type.Act()
	use := fmt.Sprintf("%d heads", n)
	return kernel.Act{
		kind: l.buf(use, kernel.BufSpec{Kind: kind, Rows: kernel.HeadRows, Width: kernel.Pad(width), NHead: n}),
	}
}
