package nn

import "github.com/quern-llm/quern/go/kernel"

// ExpertAttention is attention whose queries and results each expert has a projection for, and whose keys and values
// are the same for all (Zhang et al. 2022, "Mixture of Attention Heads"): the sum over a token's experts of weight *
// attn_output(attend(rope(attn_q(input)))). Heads of the experts of a token that share a KV head are neighbours.
func (l Layer) ExpertAttention() Sublayer {
	c := l.Config
	width := l.NHeadKV * l.HeadDim // of an expert
	router := kernel.Part{Matrix: l.Matrix("attn_gate_inp.weight", c.NEmbd, c.NExpert)}
	query, out := l.expertPart("attn_q", c.NEmbd, width), l.expertPart("attn_output", width, c.NEmbd)
	nq := l.NHead * l.HeadDim
	keys := kernel.Part{Matrix: l.Matrix("attn_k.weight", c.NEmbd, width), Col: nq}
	values := kernel.Part{Matrix: l.Matrix("attn_v.weight", c.NEmbd, width), Col: nq + width}
	in := []kernel.Matrix{router.Matrix, query.Matrix, keys.Matrix, values.Matrix}
	return Sublayer{In: in, Run: func(act kernel.Act) {
		route := l.buf("route", kernel.BufSpec{Kind: kernel.Route, Width: kernel.Panel})
		qkv := l.Floats("qkv", kernel.TokRows, nq+2*width)
		att := l.Floats("att", kernel.TokRows, nq)
		pairs, results := l.Floats("pair.heads", kernel.PairRows, width), l.Floats("pair.out", kernel.PairRows, c.NEmbd)
		pairAct := l.Act("pair.embd", kernel.PairRows, c.NEmbd, query.Matrix)
		headsAct := l.Act("pair.heads", kernel.PairRows, width, out.Matrix)
		l.Add(kernel.Matmul{
			Dst: l.routerLogits(), Act: l.Only(act, router.Matrix), Parts: []kernel.Part{router},
		})
		l.Add(kernel.MoeRoute{
			Dst: route, Src: l.routerLogits(), Gating: c.ExpertGating, Renorm: c.ExpertNorm,
			Scale: c.ExpertScale * c.ResidualScale,
		})
		l.Add(kernel.MoeGather{Dst: pairAct, Src: l.Only(act, query.Matrix), Cols: c.NEmbd, Route: route})
		l.Add(kernel.Matmul{
			Dst: pairs, Act: pairAct, Rows: kernel.PairRows, Route: route, Parts: []kernel.Part{query},
		})
		move := kernel.MoeHeads{Tok: qkv, Pair: pairs, Route: route, NHead: l.NHeadKV, HeadDim: l.HeadDim}
		l.Add(move)
		l.Add(kernel.Matmul{
			Dst: qkv, Act: l.Only(act, keys.Matrix, values.Matrix), Parts: []kernel.Part{keys, values},
		})
		own := Attention{In: c.NEmbd}
		kv := l.cache(own, projection{})
		heads := kernel.Heads{
			NHead: l.NHead, NHeadKV: l.NHeadKV, HeadDim: l.HeadDim, ValueDim: l.ValueDim, KV: l.kv, QKV: qkv,
			Col: [3]int{0, keys.Col, values.Col}, Group: kv.group, KVOffset: kv.offset, Tiers: kv.tiers,
		}
		l.Add(l.store(own, heads, balance{}))
		l.Add(kernel.Attend{Heads: heads, Dst: att})
		move.Tok, move.ToPairs = att, true
		l.Add(move)
		l.Add(kernel.ToAct{Act: headsAct, Src: pairs, Rows: kernel.PairRows, Cols: width, Route: route})
		l.Add(kernel.Matmul{
			Dst: results, Act: headsAct, Rows: kernel.PairRows, Route: route, Parts: []kernel.Part{out},
		})
		l.Add(kernel.MoeCombine{Dst: l.X(), Src: results, Route: route})
	}}
}

// ExpertHeads reads the heads of attention whose queries and results are experts': as many as there are KV heads for
// each expert of a token.
func (k *Keys) ExpertHeads() {
	for il := range k.Config.Layers {
		l := &k.Config.Layers[il]
		if want := l.NHeadKV * k.Config.NExpertUsed; l.NHead != want {
			k.Fail("attention.head_count", "%d, want %d: %d for each of the %d experts of a token", l.NHead, want,
				l.NHeadKV, k.Config.NExpertUsed)
		}
		if l.HeadDim%kernel.Panel != 0 || l.ValueDim != l.HeadDim {
			k.Fail("attention.key_length", "%d, with values of %d, want a multiple of %d, and values as wide", l.HeadDim,
				l.ValueDim, kernel.Panel)
		}
	}
}
