package arch

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// A layer builds one transformer block: its number, and how its tensors' names
// begin.
type layer struct {
	*builder
	il  int
	blk string
}

// attention says what the attention of an architecture has besides the four
// projections.
type attention struct {
	rope   kernel.Rope
	bias   bool // of queries, keys and values: required, else used where present
	qkNorm bool // of each head of queries and keys
}

// attend adds the attention half: x += output(attention(rope(qkv(norm(x))))).
func (l layer) attend(a attention) {
	c := l.cfg
	nq, nkv := c.NHead*c.HeadDim, c.NHeadKV*c.HeadDim
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
	}{{"attn_q", nq}, {"attn_k", nkv}, {"attn_v", nkv}} {
		m := l.matrix(l.blk+p.name+".weight", c.NEmbd, p.n)
		parts = append(parts, kernel.Part{Matrix: m, Bias: bias(l.blk+p.name+".bias", p.n), Col: width})
		col[i] = width
		width += kernel.Pad(p.n)
	}
	out := l.matrix(l.blk+"attn_output.weight", nq, c.NEmbd)

	act := l.act("embd", kernel.TokRows, c.NEmbd, parts[0].Matrix, parts[1].Matrix, parts[2].Matrix)
	att := l.floats("att", kernel.TokRows, nq)
	attAct := l.act("att", kernel.TokRows, nq, out)
	group, offset := l.state(kernel.Group{Name: "attention", Bytes: kernel.KVBytes(l.kv, c.NHeadKV, c.HeadDim)})
	heads := kernel.Heads{
		NHead: c.NHead, NHeadKV: c.NHeadKV, HeadDim: c.HeadDim,
		KV: l.kv, Group: group, KVOffset: offset,
		QKV: l.floats("qkv", kernel.TokRows, width), Col: col,
	}
	store := kernel.StoreKV{
		Heads: heads, Rope: a.rope, NRot: c.NRot, Table: l.ropeTable(), Eps: c.RMSEps, Scale: c.attnScale(),
	}
	if a.qkNorm {
		store.QNorm = l.vector(l.blk+"attn_q_norm.weight", c.HeadDim)
		store.KNorm = l.vector(l.blk+"attn_k_norm.weight", c.HeadDim)
	}

	l.add(l.norm(act, l.x(), kernel.TokRows, l.blk+"attn_norm.weight", c.NEmbd))
	l.add(kernel.Matmul{Dst: heads.QKV, Act: act, Parts: parts})
	l.add(store)
	l.add(kernel.Attend{Heads: heads, Dst: att})
	l.add(kernel.ToAct{Act: attAct, Src: att, Cols: nq})
	l.add(kernel.Matmul{
		Dst: l.x(), Act: attAct, Epilogue: kernel.Add,
		Parts: []kernel.Part{{Matrix: out, Bias: l.optional(l.blk+"attn_output.bias", c.NEmbd)}},
	})
}

// feedForward adds the dense half: x += down(silu(gate(norm(x))) * up(norm(x))).
func (l layer) feedForward() {
	c := l.cfg
	l.refuse(l.blk + "ffn_gate.bias")
	l.refuse(l.blk + "ffn_up.bias")
	gate := l.matrix(l.blk+"ffn_gate.weight", c.NEmbd, c.NFF)
	up := l.matrix(l.blk+"ffn_up.weight", c.NEmbd, c.NFF)
	down := l.matrix(l.blk+"ffn_down.weight", c.NFF, c.NEmbd)

	act := l.act("embd", kernel.TokRows, c.NEmbd, gate, up)
	ffn := l.floats("ffn", kernel.TokRows, c.NFF)
	ffnAct := l.act("ffn", kernel.TokRows, c.NFF, down)

	l.add(l.norm(act, l.x(), kernel.TokRows, l.blk+"ffn_norm.weight", c.NEmbd))
	l.add(kernel.Matmul{Dst: ffn, Act: act, Parts: []kernel.Part{{Matrix: gate}, {Matrix: up}}, Epilogue: kernel.SwiGLU})
	l.add(kernel.ToAct{Act: ffnAct, Src: ffn, Cols: c.NFF})
	l.add(kernel.Matmul{
		Dst: l.x(), Act: ffnAct, Epilogue: kernel.Add,
		Parts: []kernel.Part{{Matrix: down, Bias: l.optional(l.blk+"ffn_down.bias", c.NEmbd)}},
	})
}

// experts adds the sparse half, as Mixtral has it: the router's n_used best
// experts, weighted by their softmax renormalised to 1.
func (l layer) experts() {
	c := l.cfg
	router := l.matrix(l.blk+"ffn_gate_inp.weight", c.NEmbd, c.NExpert)
	gate := l.expertMatrix("ffn_gate", c.NEmbd, c.NFFExpert)
	up := l.expertMatrix("ffn_up", c.NEmbd, c.NFFExpert)
	down := l.expertMatrix("ffn_down", c.NFFExpert, c.NEmbd)

	// One norm for the router and the experts: it makes what either takes.
	act := l.act("embd", kernel.TokRows, c.NEmbd, router, gate, up)
	expertAct := l.only(act, gate, up)
	logits := l.floats("router", kernel.TokRows, c.NExpert)
	route := l.buf("route", kernel.BufSpec{Kind: kernel.Route, Width: kernel.Panel})
	pairAct := l.act("pair.embd", kernel.PairRows, c.NEmbd, gate, up)
	ffn := l.floats("pair.ffn", kernel.PairRows, c.NFFExpert)
	ffnAct := l.act("pair.ffn", kernel.PairRows, c.NFFExpert, down)
	out := l.floats("pair.out", kernel.PairRows, c.NEmbd)

	l.add(l.norm(act, l.x(), kernel.TokRows, l.blk+"ffn_norm.weight", c.NEmbd))
	l.add(kernel.Matmul{Dst: logits, Act: l.only(act, router), Parts: []kernel.Part{{Matrix: router}}})
	l.add(kernel.MoeRoute{Dst: route, Src: logits, Renorm: true, Scale: 1})
	l.add(kernel.MoeGather{Dst: pairAct, Src: expertAct, Cols: c.NEmbd, Route: route})
	l.add(kernel.Matmul{
		Dst: ffn, Act: pairAct, Rows: kernel.PairRows, Route: route,
		Parts: []kernel.Part{{Matrix: gate}, {Matrix: up}}, Epilogue: kernel.SwiGLU,
	})
	l.add(kernel.ToAct{Act: ffnAct, Src: ffn, Rows: kernel.PairRows, Cols: c.NFFExpert, Route: route})
	l.add(kernel.Matmul{Dst: out, Act: ffnAct, Rows: kernel.PairRows, Route: route, Parts: []kernel.Part{{Matrix: down}}})
	l.add(kernel.MoeCombine{Dst: l.x(), Src: out, Route: route})
}

// only keeps of a the kinds that products with these matrices take.
func (l layer) only(a kernel.Act, mats ...kernel.Matrix) kernel.Act {
	kept := kernel.Act{}
	for _, m := range mats {
		kept[m.Type.Act()] = a[m.Type.Act()]
	}
	return kept
}

// expertMatrix returns the matrices of all experts: one tensor, or, in files
// from before there was such, one for each expert.
func (l layer) expertMatrix(name string, in, out int) kernel.Matrix {
	n := l.cfg.NExpert
	whole := l.blk + name + "_exps.weight"
	if first := fmt.Sprintf("%s%s.0.weight", l.blk, name); !l.w.Has(whole) && l.w.Has(first) {
		names := make([]string, n)
		for e := range names {
			names[e] = fmt.Sprintf("%s%s.%d.weight", l.blk, name, e)
		}
		m, err := l.w.Stack(names, in, out)
		return keep(l.builder, m, err)
	}
	m, err := l.w.Matrix(whole, in, out, n)
	return keep(l.builder, m, err)
}
