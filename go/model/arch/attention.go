package arch

import "github.com/quern-llm/quern/go/kernel"

// A layer builds one transformer block: its sizes, and how its tensors' names
// begin.
type layer struct {
	*builder
	Layer
	blk string
}

// attention says what the attention of an architecture has besides the four
// projections.
type attention struct {
	bias   bool // of queries, keys and values: required, else used where present
	qkNorm bool // of each head of queries and keys
}

// attend adds the attention half: x += output(attention(rope(qkv(norm(x))))).
func (l layer) attend(a attention) {
	c := l.cfg
	nq, nk, nv := l.NHead*l.HeadDim, l.NHeadKV*l.HeadDim, l.NHeadKV*l.ValueDim
	bias := l.optional
	if a.bias {
		bias = l.vector
	}
	var parts []kernel.Part
	var col [3]int
	width := 0
	for i, p := range []struct {
		name string
		n    int
	}{{"attn_q", nq}, {"attn_k", nk}, {"attn_v", nv}} {
		m := l.matrix(l.blk+p.name+".weight", c.NEmbd, p.n)
		parts = append(parts, kernel.Part{Matrix: m, Bias: bias(l.blk+p.name+".bias", p.n), Col: width})
		col[i] = width
		width += kernel.Pad(p.n)
	}
	nOut := l.NHead * l.ValueDim
	out := l.matrix(l.blk+"attn_output.weight", nOut, c.NEmbd)

	act := l.act("embd", kernel.TokRows, c.NEmbd, parts[0].Matrix, parts[1].Matrix, parts[2].Matrix)
	att := l.floats("att", kernel.TokRows, nOut)
	attAct := l.act("att", kernel.TokRows, nOut, out)
	heads := kernel.Heads{
		NHead: l.NHead, NHeadKV: l.NHeadKV, HeadDim: l.HeadDim,
		KV: l.kv, KVOffset: l.reserve(Group{Name: "attention"}, kernel.KVBytes(l.kv, l.NHeadKV, l.HeadDim)),
		QKV: l.floats("qkv", kernel.TokRows, width), Col: col,
	}
	store := kernel.StoreKV{
		Heads: heads, Rope: l.Rope.Style, NRot: l.Rope.NRot, Eps: c.Eps, Scale: l.AttnScale,
	}
	if l.Rope.Style != kernel.RopeNone {
		store.Table = l.ropeTable(l.Rope)
	}
	if a.qkNorm {
		store.QNorm = l.vector(l.blk+"attn_q_norm.weight", l.HeadDim)
		store.KNorm = l.vector(l.blk+"attn_k_norm.weight", l.HeadDim)
	}

	l.add(l.norm(act, l.x(), kernel.TokRows, l.blk+"attn_norm.weight", c.NEmbd))
	l.add(kernel.Matmul{Dst: heads.QKV, Act: act, Parts: parts})
	l.add(store)
	l.add(kernel.Attend{Heads: heads, Dst: att})
	l.add(kernel.ToAct{Act: attAct, Src: att, Cols: nOut})
	l.add(kernel.Matmul{
		Dst: l.x(), Act: attAct, Epilogue: kernel.Add,
		Parts: []kernel.Part{{Matrix: out, Bias: l.optional(l.blk+"attn_output.bias", c.NEmbd)}},
	})
}
