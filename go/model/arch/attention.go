package arch

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// headNorm says how queries and keys are normalised.
type headNorm int

const (
	normNone     headNorm = iota
	normHead              // each head, all with the same weights, before the rotation
	normAfter             // the same, after the rotation
	normEach              // each head with weights of its own, by the model's kind of norm
	normRow               // all heads of a token together
	normRowMaybe          // the same, where the file has weights
	normMaybe             // as normHead, where the file has weights
	normPlain             // each head, without weights
	normGain              // the same, and then each head of queries times a number of its own
	normMean              // as normEach, by a norm with a mean, and biases where the file has them
)

// gateFrom says where the gate of an attention comes from.
type gateFrom int

const (
	gateNone  gateFrom = iota
	gateOwn            // attn_gate
	gateQuery          // attn_q, which has of each head the query and then the gate
	gateHead           // attn_gate, which has a number for each head
)

// attention says what the attention of an architecture has besides the four
// projections. Biases are used where the file has them.
type attention struct {
	bias  bool     // of queries, keys and values: required
	norm  headNorm // by attn_q_norm and attn_k_norm
	value bool     // values are normalised by head without weights, and keys before their norm if attn_v is missing
	sinks bool     // a score of each head that takes weight and has no value: attn_sinks
	gate  gateFrom // the result is multiplied by the sigmoid of a projection
	soft  bool     // by its softplus instead
	sub   string   // the norm of what the heads have made, before the last product
	post  string   // the norm of the result, before it is added
	out   string   // the last projection, if not attn_output
	spans bool     // it is to the best spans of positions, where the layer has some: see spanIndex
	apart bool     // each kv head sees spans of its own: see headIndex
	in    int      // columns of what the projections multiply; 0: those of the residual
}

// attention is output(attend(rope(qkv(input)))).
func (l layer) attention(a attention) sublayer {
	q := l.queries(a)
	nOut := l.NHead * l.ValueDim
	outName := cmp.Or(a.out, "attn_output")
	out := l.matrix(outName+".weight", nOut, l.cfg.NEmbd)
	h := sublayer{}
	for _, p := range q.parts {
		h.in = append(h.in, p.Matrix)
	}
	var gate kernel.Matrix
	switch a.gate {
	case gateOwn:
		gate = l.matrix("attn_gate.weight", l.cfg.NEmbd, nOut)
	case gateHead:
		gate = l.headGate()
	case gateQuery:
		gate, _ = l.perHead("attn_q", l.HeadDim, l.ValueDim)
	}
	if a.gate != gateNone {
		h.in = append(h.in, gate)
	}
	var best int
	var choose func(act kernel.Act) kernel.Buf
	if a.spans {
		var in []kernel.Matrix
		if a.apart {
			in, best, choose = l.headIndex()
		} else {
			in, best, choose = l.spanIndex()
		}
		h.in = append(h.in, in...)
	}
	h.run = func(act kernel.Act) {
		l.add(kernel.Matmul{Dst: q.buf, Act: act, Parts: q.parts, Limit: l.cfg.AttnLimit})
		if slices.Contains([]headNorm{normEach, normRow, normRowMaybe, normPlain, normGain, normMean}, a.norm) {
			l.normHeads(a.norm, q, "attn_q_norm", q.col[0], l.NHead)
			l.normHeads(a.norm, q, "attn_k_norm", q.col[1], l.NHeadKV)
		}
		if a.value && !l.Shared {
			l.normValues(q)
		}
		kv := l.cache(a, q)
		heads := kernel.Heads{
			NHead: l.NHead, NHeadKV: l.NHeadKV, HeadDim: l.HeadDim, ValueDim: l.ValueDim, KV: l.kv, QKV: q.buf, Col: q.col,
			Group: kv.group, KVOffset: kv.offset, Tiers: kv.tiers,
		}
		even := kv.even
		l.add(l.store(a, heads, even))
		att := l.floats("att", kernel.TokRows, nOut)
		attend := kernel.Attend{Heads: heads, Dst: att, Chunked: l.Chunked, Softcap: l.cfg.AttnCap, Bias: l.bias(), Mul: even.out}
		attend.Beyond = l.Temperature.Beyond
		attend.Window, attend.Ahead = l.sight()
		if l.role == inDecoder {
			attend.Side = kernel.OwnSide
		}
		if a.sinks {
			attend.Sinks = l.vector("attn_sinks.weight", l.NHead)
		}
		if best > 0 {
			attend.Best, attend.Each, attend.Chosen = best, l.Every, choose(act)
			attend.Near, attend.Apart = l.cfg.Latent.Index.Near, a.apart
		}
		l.add(attend)
		if a.gate != gateNone {
			op := kernel.Gate{Dst: att, Cols: nOut, Fn: kernel.Sigmoid}
			if a.soft {
				op.Fn = kernel.Softplus
			}
			if a.gate == gateHead {
				op.Cols, op.Segs = l.ValueDim, l.NHead
			}
			l.open(act, gate, op)
		}
		if scale := l.cfg.ValueScale; scale != 0 {
			l.add(kernel.NormRows{Dst: att, Src: att, Cols: nOut, Segs: 1, Kind: kernel.NoNorm, Scale: scale})
		}
		attAct := l.act("att", kernel.TokRows, nOut, out)
		l.inner(attAct, att, nOut, a.sub)
		l.result(attAct, kernel.Part{Matrix: out, Bias: l.optional(outName+".bias", l.cfg.NEmbd)}, a.post)
	}
	return h
}

// headGate binds the projection that has a number for each head.
func (l layer) headGate() kernel.Matrix {
	return l.matrix("attn_gate.weight", l.cfg.NEmbd, l.NHead)
}

// open multiplies what heads have made by the function of a projection.
func (l layer) open(act kernel.Act, gate kernel.Matrix, op kernel.Gate) {
	op.Src = l.floats("gate", kernel.TokRows, gate.Out)
	l.add(kernel.Matmul{Dst: op.Src, Act: l.only(act, gate), Parts: []kernel.Part{{Matrix: gate}}})
	l.add(op)
}

// sight returns how far a token sees: positions before it, its own included, 0 for all,
// and positions after it. A window that is read in both directions has the token in its middle.
func (l layer) sight() (window, ahead int) {
	switch {
	case l.role == inEncoder:
		return 0, math.MaxInt32
	case !l.cfg.BothWays:
		return l.Window, 0
	case l.Window == 0:
		return 0, math.MaxInt32
	}
	return l.Window/2 + 1, l.Window / 2
}

// A kvCache is where the keys and values of a layer are, and what their channels are multiplied by.
type kvCache struct {
	group, offset int
	tiers         []kernel.Tier
	even          balance
}

// cache has memory for the keys and values of the layer, or finds those that it shares.
func (l layer) cache(a attention, q projection) kvCache {
	if l.Shared {
		return l.caches[l.Window]
	}
	k := kvCache{}
	if a.in == 0 { // else it is not known how large its columns are
		k.even = l.balance(a, q)
	}
	k.group, k.offset, k.tiers = l.place()
	l.caches[l.Window] = k
	return k
}

// place has memory for the keys and values of the layer.
func (l layer) place() (group, offset int, tiers []kernel.Tier) {
	switch {
	case l.role == inEncoder && l.il > 0: // a layer is done with them before the next begins
		return l.caches[l.Window].group, l.caches[l.Window].offset, nil
	case l.role == inDecoder:
		return l.crossed[l.il].group, l.crossed[l.il].offset, nil
	}
	g := l.keysAndValues()
	if g.Window > 0 {
		group, offset = l.state(g)
		return group, offset, nil
	}
	return l.aged(g, func(kv kernel.KVTypes) int { return kernel.KVBytes(kv, l.NHeadKV, l.HeadDim, l.ValueDim) })
}

// aged has memory for keys and values that every later token sees, whose types give the bytes: in a group for each
// tier, if there are tiers.
func (b *builder) aged(g kernel.Group, bytes func(kv kernel.KVTypes) int) (group, offset int, tiers []kernel.Tier) {
	if len(b.tiers) == 0 {
		group, offset = b.state(g)
		return group, offset, nil
	}
	name, step := g.Name, b.tiers[0].To
	for i, t := range b.tiers {
		g.Bytes, g.AgeFrom, g.AgeTo, g.AgeStep = bytes(t.KV), t.From, t.To, step
		if i == 0 {
			group, offset = b.state(g)
			continue
		}
		g.Name = fmt.Sprintf("%s from %d", name, t.From)
		at := kernel.Tier{KV: t.KV}
		at.Group, at.KVOffset = b.state(g)
		tiers = append(tiers, at)
	}
	return group, offset, tiers
}

// keysAndValues is the layer's share of a block. Layers with a window have a group
// of their own, whose blocks behind the window are released, unless all is released when the
// text was read.
func (l layer) keysAndValues() kernel.Group {
	g := kernel.Group{Name: "attention", Bytes: kernel.KVBytes(l.kv, l.NHeadKV, l.HeadDim, l.ValueDim), Window: l.Window}
	if l.cfg.BothWays {
		g.Window = 0
	} else if l.Window > 0 {
		g.Name = fmt.Sprintf("window %d", l.Window)
	}
	return g
}

// A projection is where queries, keys and values come from, and where they are.
type projection struct {
	parts []kernel.Part
	names []string // of the parts' matrices
	from  [3]struct{ part, row int }
	buf   kernel.Buf
	col   [3]int
}

// queries binds the projections: three matrices, or all in one.
func (l layer) queries(a attention) projection {
	var q projection
	nq, nk, nv := l.NHead*l.HeadDim, l.NHeadKV*l.HeadDim, l.NHeadKV*l.ValueDim
	bias := l.optional
	if a.bias {
		bias = l.vector
	}
	width := 0
	biased := func(name string, n int, bias []float32) {
		m, matrix := l.projected(a, name, n)
		q.names = append(q.names, matrix)
		q.parts = append(q.parts, kernel.Part{Matrix: m, Bias: bias, Col: width})
		width += kernel.Pad(n)
	}
	part := func(name string, n int) { biased(name, n, bias(name+".bias", n)) }
	if fused := "attn_qkv.weight"; l.has(fused) {
		if nq%kernel.Panel != 0 || nk%kernel.Panel != 0 {
			check(fmt.Errorf("tensor %q: %d rows of queries and %d of keys, want multiples of %d", l.blk+fused, nq, nk, kernel.Panel))
		}
		if !l.has("attn_qkv.bias") && l.has("attn_q.bias") { // though the matrices are one
			biased("attn_qkv", nq+nk+nv, l.biasesOf(nq, nk, nv))
		} else {
			part("attn_qkv", nq+nk+nv)
		}
		q.col = [3]int{0, nq, nq + nk}
		q.from[1].row, q.from[2].row = nq, nq+nk
	} else {
		part("attn_q", nq)
		if !l.Shared {
			q.col[1], q.from[1].part = width, 1
			part("attn_k", nk)
			q.col[2], q.from[2].part = width, 1
			if !a.value || l.has("attn_v.weight") {
				q.from[2].part = 2
				part("attn_v", nv)
			} else {
				width += kernel.Pad(nv)
			}
		}
	}
	q.buf = l.floats("qkv", kernel.TokRows, width)
	return q
}

// biasesOf returns the biases of queries, keys and values, the given number of each, one after the other.
func (l layer) biasesOf(nq, nk, nv int) []float32 {
	q, k, v := l.vector("attn_q.bias", nq), l.vector("attn_k.bias", nk), l.vector("attn_v.bias", nv)
	return l.constants("biases of attn_qkv", kernel.Pad(nq+nk+nv), func(i int) float64 {
		switch {
		case i < nq:
			return float64(q[i])
		case i < nq+nk:
			return float64(k[i-nq])
		}
		return float64(v[i-nq-nk]) // and what pads it
	})
}

// projected returns a projection and the name of its matrix.
func (l layer) projected(a attention, name string, n int) (kernel.Matrix, string) {
	if name == "attn_q" && a.gate == gateQuery {
		return l.perHead(name, 0, l.HeadDim)
	}
	name = name + ".weight"
	return l.matrix(name, cmp.Or(a.in, l.cfg.NEmbd), n), l.blk + name
}

// perHead returns the n rows from number `from` on of each head of a projection that has
// a query and a gate of each.
func (l layer) perHead(name string, from, n int) (kernel.Matrix, string) {
	name = name + ".weight"
	return l.headRows(name, l.cfg.NEmbd, l.HeadDim+l.ValueDim, from, n, l.NHead), HeadsName(l.blk+name, from)
}

// headNorm returns the weights of a norm of queries or keys and after how many of them
// they repeat; nil if there is none.
func (l layer) headNorm(kind headNorm, name string, heads int) ([]float32, int) {
	name = name + ".weight"
	switch kind {
	case normHead, normAfter:
		return l.vector(name, l.HeadDim), l.HeadDim
	case normMaybe:
		return l.optional(name, l.HeadDim), l.HeadDim
	case normEach: // only some models of the architecture have it
		return l.optional(name, l.HeadDim, heads), heads * l.HeadDim
	case normMean:
		return l.vector(name, l.HeadDim, heads), heads * l.HeadDim
	case normGain:
		if !l.has(name) { // keys
			return nil, l.HeadDim
		}
		return l.repeated(name, heads, l.HeadDim), heads * l.HeadDim
	case normRow:
		return l.vector(name, heads*l.HeadDim), heads * l.HeadDim
	case normRowMaybe:
		return l.optional(name, heads*l.HeadDim), heads * l.HeadDim
	}
	return nil, l.HeadDim
}

// repeated returns each of n numbers the given number of times.
func (l layer) repeated(name string, n, times int) []float32 {
	each, all := l.vector(name, 1, n), l.made(name+" repeated", n*times)
	if each == nil || all == nil {
		return nil
	}
	for i := range n * times {
		all[i] = each[i/times]
	}
	return all
}

// meanEps is that of normMean, which files do not say.
const meanEps = 1e-5

// normHeads normalises heads of queries or keys in place.
func (l layer) normHeads(kind headNorm, q projection, name string, col, heads int) {
	if (kind == normEach || kind == normRowMaybe) && !l.has(name+".weight") {
		return
	}
	op := kernel.NormRows{
		Dst: q.buf, Src: q.buf, DstCol: col, SrcCol: col, Cols: l.HeadDim, Segs: heads, SegWeights: true,
		Kind: l.cfg.Norm, Eps: l.cfg.Eps, Scale: 1,
	}
	if kind == normPlain {
		op.SegWeights = false
	} else if kind == normMean {
		op.Kind, op.Eps = kernel.LayerNorm, meanEps
		op.Bias = l.optional(name+".bias", l.HeadDim, heads)
	} else if kind == normRow || kind == normRowMaybe {
		op.Cols, op.Segs, op.SegWeights = heads*l.HeadDim, 1, false
		op.Bias = l.optional(name+".bias", heads*l.HeadDim)
	}
	op.Weight, _ = l.headNorm(kind, name, heads)
	l.add(op)
}

// normValues normalises values by head, without weights, from where their projection is.
func (l layer) normValues(q projection) {
	src := q.col[2]
	if q.from[2] == q.from[1] {
		src = q.col[1]
	}
	l.add(kernel.NormRows{
		Dst: q.buf, Src: q.buf, DstCol: q.col[2], SrcCol: src, Cols: l.ValueDim, Segs: l.NHeadKV,
		Kind: l.cfg.Norm, Eps: l.cfg.Eps, Scale: 1,
	})
}

// store is the operation that stores keys and values.
func (l layer) store(a attention, heads kernel.Heads, even balance) kernel.StoreKV {
	s := kernel.StoreKV{
		Heads: heads, Rope: l.Rope.Style, NRot: l.Rope.NRot, Eps: l.cfg.Eps, Scale: l.AttnScale,
		Temperature: l.Temperature,
		QMul:        even.q, KMul: even.k, VMul: even.v,
		QueriesOnly: l.Shared,
	}
	if l.Rope.Style != kernel.RopeNone {
		s.Table = l.ropeTable(l.Rope)
	}
	if a.norm == normHead || a.norm == normMaybe || a.norm == normAfter {
		s.QNorm, _ = l.headNorm(a.norm, "attn_q_norm", l.NHead)
		if !l.Shared {
			s.KNorm, _ = l.headNorm(a.norm, "attn_k_norm", l.NHeadKV)
		}
		s.RopeFirst = a.norm == normAfter
	}
	return s
}
