package nn

import (
	"cmp"
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// QKNorm says how queries and keys are normalised before the scores.
type QKNorm int

const (
	NormNone         QKNorm = iota
	NormHead                // each head, all with the same weights, before the rotation
	NormAfterRope           // the same, after the rotation
	NormEachHead            // each head with weights of its own, by the model's kind of norm
	NormRow                 // all heads of a token together
	NormRowOptional         // the same, where the file has weights
	NormHeadOptional        // as NormHead, where the file has weights
	NormUnweighted          // each head, without weights
	NormGain                // the same, and then each head of queries times a number of its own
	NormEachCentered        // as NormEachHead, by a norm with a mean, and biases where the file has them
	// as NormHeadOptional, by the model's kind of norm with biases
	NormCenteredOptional
)

// beforeStore reports whether heads are normalised by operations of their own, and not as keys are stored.
func (n QKNorm) beforeStore() bool {
	switch n {
	case NormEachHead, NormRow, NormRowOptional, NormUnweighted, NormGain, NormEachCentered, NormCenteredOptional:
		return true
	}
	return false
}

// GateKind says where the output gate of an attention comes from.
type GateKind int

const (
	GateNone    GateKind = iota
	GateChannel          // attn_gate
	GateQuery            // attn_q, which has of each head the query and then the gate
	GateHead             // attn_gate, which has a number for each head
)

// Attention says what the attention of an architecture has besides the four projections attn_q, attn_k, attn_v, or
// attn_qkv, and attn_output. Biases are used if the file has them.
type Attention struct {
	Bias   bool   // queries, keys and values have biases: the file must have them
	QKNorm QKNorm // norms of queries and keys, by attn_q_norm and attn_k_norm
	// values are normalised per head, without weights; without attn_v they are the keys before their norm
	ValueNorm    bool
	Sinks        bool     // attn_sinks: a score per head that takes weight and has no value
	Gate         GateKind // the result is multiplied by the sigmoid of a projection
	Softplus     bool     // by its softplus instead
	SubNorm      string   // the norm before the output projection
	PostNorm     string   // the norm of the result, before it is added to the residual
	PostScale    string   // a tensor of factors of its columns, instead, where the file has it
	Out          string   // the output projection, if it is not attn_output
	Spans        bool     // attention is to the best spans of positions, in layers with a CompressRatio
	SpansPerHead bool     // each KV head selects spans of its own
	In           int      // columns of the input; 0: NEmbd
	Differential bool     // of the results of the heads: see difference
	Clipped      bool     // products are within limits: see ClippedResidual
	Adapters     bool     // matrices have adapters, where the file has them: see SharedBlock
}

// Attention is output(attend(rope(qkv(input)))): scaled dot-product attention (Vaswani et al. 2017) with grouped keys
// and values.
func (l Layer) Attention(a Attention) Sublayer {
	q := l.queries(a)
	nOut := l.NHead * l.ValueDim
	outName := cmp.Or(a.Out, "attn_output")
	nIn := nOut
	if a.Differential {
		nIn = nOut / 2
	}
	out := l.Matrix(outName+".weight", nIn, l.Config.NEmbd)
	h := Sublayer{}
	for _, p := range q.parts {
		h.In = append(h.In, p.Matrix)
	}
	adapters := l.queryAdapters(a, q)
	for _, d := range adapters {
		h.In = append(h.In, d.first)
	}
	var gate kernel.Matrix
	switch a.Gate {
	case GateChannel:
		gate = l.Matrix("attn_gate.weight", l.Config.NEmbd, nOut)
	case GateHead:
		gate = l.headGate()
	case GateQuery:
		gate, _ = l.perHead("attn_q", l.HeadDim, l.ValueDim)
	}
	if a.Gate != GateNone {
		h.In = append(h.In, gate)
	}
	var best int
	var choose func(act kernel.Act) kernel.Buf
	if a.Spans {
		var in []kernel.Matrix
		if a.SpansPerHead {
			in, best, choose = l.headIndex()
		} else {
			in, best, choose = l.spanIndex()
		}
		h.In = append(h.In, in...)
	}
	h.Run = func(act kernel.Act) {
		apart := l.role == ofRows && !a.Clipped // queries, the first part, are computed later: see queriesApart
		input := l.ops[len(l.ops)-1]            // what act is from
		switch {
		case a.Clipped:
			l.clippedQueries(q)
		case apart:
			l.Add(kernel.Matmul{Dst: q.buf, Act: act, Parts: q.parts[1:], Limit: l.Config.AttnLimit})
		default:
			l.Add(kernel.Matmul{Dst: q.buf, Act: act, Parts: q.parts, Limit: l.Config.AttnLimit})
		}
		for i, d := range adapters {
			l.addAdapter(act, d, q.buf, q.parts[i].Col)
		}
		if a.QKNorm.beforeStore() {
			if !apart {
				l.normHeads(a.QKNorm, q, "attn_q_norm", q.col[0], l.NHead)
			}
			l.normHeads(a.QKNorm, q, "attn_k_norm", q.col[1], l.NHeadKV)
		}
		if a.ValueNorm && !l.SharedKV {
			l.normValues(q)
		}
		relative := l.relative(q)
		kv := l.cache(a, q)
		heads := kernel.Heads{
			NHead: l.NHead, NHeadKV: l.NHeadKV, HeadDim: l.HeadDim, ValueDim: l.ValueDim, KV: l.kv, QKV: q.buf,
			Col:   q.col,
			Group: kv.group, KVOffset: kv.offset, Tiers: kv.tiers,
		}
		even := kv.even
		if !apart {
			l.turn(heads, l.NHead, 0)
		}
		l.turn(heads, l.NHeadKV, 1)
		l.Add(l.store(a, heads, even))
		if apart {
			l.queriesApart(a, q, heads, even, input, act)
		} else if l.role == ofRows {
			heads.QKV, heads.Col[0] = l.keepQueries(q), 0
		}
		att := l.Floats("att", kernel.TokRows, nOut)
		attend := kernel.Attend{
			Heads: heads, Dst: att, Chunked: l.Chunked, Softcap: l.Config.AttnCap, Bias: l.bias(),
			Relative: relative, Mul: even.out,
		}
		attend.Beyond = l.Temperature.Beyond
		attend.Window, attend.Ahead = l.sight()
		switch {
		case l.Config.Media && l.SeesMedia:
			attend.Sight = kernel.AllSpan
		case l.role == inDecoder:
			attend.Side = kernel.OwnSide
		case l.role == ofRows && l.Window > 0:
			attend.Window, attend.Sight = 0, kernel.OnlySpan
		case l.role == ofRows:
			attend.Side = kernel.SourceSide
		}
		if a.Sinks {
			if name := "attn_sinks"; l.Has(name) { // as encoders have it
				attend.Sinks = l.Vector(name, l.NHead)
			} else {
				attend.Sinks = l.Vector(name+".weight", l.NHead)
			}
		}
		if best > 0 {
			attend.Best, attend.Each, attend.Chosen = best, l.CompressRatio, choose(act)
			attend.Near, attend.Apart = l.Config.Latent.Index.Local, a.SpansPerHead
		}
		l.sparsely(&attend)
		l.Add(attend)
		if a.Gate != GateNone {
			op := kernel.Gate{Dst: att, Cols: nOut, Fn: kernel.Sigmoid}
			if a.Softplus {
				op.Fn = kernel.Softplus
			}
			if a.Gate == GateHead {
				op.Cols, op.Segs = l.ValueDim, l.NHead
			}
			l.open(act, gate, op)
		}
		if scale := l.Config.ValueScale; scale != 0 {
			l.Add(kernel.NormRows{
				Dst: att, Src: att, Cols: nOut, Segs: 1, Kind: kernel.NoNorm, Scale: scale,
			})
		}
		if a.Differential {
			l.difference(att)
		}
		last := kernel.Part{Matrix: out, Bias: l.optional(outName+".bias", l.Config.NEmbd)}
		if a.Clipped {
			l.clippedResult(att, nIn, last, outName, a.PostNorm)
			return
		}
		attAct := l.Act("att", kernel.TokRows, nIn, out)
		l.inner(attAct, att, nIn, a.SubNorm)
		l.scaledResult(attAct, last, a.PostNorm, a.PostScale)
	}
	return h
}

// headGate returns the projection to a gate per head.
func (l Layer) headGate() kernel.Matrix {
	return l.Matrix("attn_gate.weight", l.Config.NEmbd, l.NHead)
}

// open multiplies the results of heads by a function of a projection of the input.
func (l Layer) open(act kernel.Act, gate kernel.Matrix, op kernel.Gate) {
	op.Src = l.Floats("gate", kernel.TokRows, gate.Out)
	l.Add(kernel.Matmul{Dst: op.Src, Act: l.Only(act, gate), Parts: []kernel.Part{{Matrix: gate}}})
	l.Add(op)
}

// sight returns how far a token sees: the number of positions up to its own, 0 for all, and the number of positions
// after it. In a window that is read in both directions the token is in the middle.
func (l Layer) sight() (window, ahead int) {
	switch {
	case l.role == inEncoder:
		return 0, math.MaxInt32
	case !l.Config.BothWays:
		return l.Window, 0
	case l.Window == 0:
		return 0, math.MaxInt32
	}
	return l.Window/2 + 1, l.Window / 2
}

// A kvCache is the place of the keys and values of a layer, and the factors of their channels.
type kvCache struct {
	group, offset int
	tiers         []kernel.Tier
	even          balance
}

// cache allocates the keys and values of the layer, or finds those that it shares.
func (l Layer) cache(a Attention, q projection) kvCache {
	if l.SharedKV {
		return l.caches[l.Window]
	}
	k := kvCache{}
	if a.In == 0 && l.role != ofRows { // else it is not known how large its columns are
		k.even = l.balance(a, q)
	}
	k.group, k.offset, k.tiers = l.place()
	l.caches[l.Window] = k
	return k
}

// place allocates the keys and values of the layer.
func (l Layer) place() (group, offset int, tiers []kernel.Tier) {
	switch {
	case l.role == inEncoder && l.Index > 0: // a layer is done with them before the next begins
		return l.caches[l.Window].group, l.caches[l.Window].offset, nil
	case l.role == ofRows && len(l.Program.Groups) > 0: // the same
		l.Program.Groups[0].Bytes = max(l.Program.Groups[0].Bytes, l.keysAndValues().Bytes)
		return 0, 0, nil
	case l.role == inDecoder:
		return l.crossed[l.Index].group, l.crossed[l.Index].offset, nil
	}
	g := l.keysAndValues()
	if g.Window > 0 {
		group, offset = l.state(g)
		return group, offset, nil
	}
	return l.aged(g, func(kv kernel.KVTypes) int { return kernel.KVBytes(kv, l.NHeadKV, l.HeadDim, l.ValueDim) })
}

// aged allocates keys and values that every later token sees, in a group per tier if there are tiers. bytes returns
// their size in given types.
func (b *Builder) aged(g kernel.Group, bytes func(kv kernel.KVTypes) int) (group, offset int, tiers []kernel.Tier) {
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

// keysAndValues is the layer's share of a KV block. Layers with a window have a group of their own, whose blocks are
// released once they are out of the window, unless the text is one batch and all is released after it.
func (l Layer) keysAndValues() kernel.Group {
	g := kernel.Group{
		Name: "attention", Bytes: kernel.KVBytes(l.kv, l.NHeadKV, l.HeadDim, l.ValueDim), Window: l.Window,
	}
	if l.Config.BothWays || l.role == ofRows {
		g.Window = 0
	} else if l.Window > 0 {
		g.Name = fmt.Sprintf("window %d", l.Window)
	}
	return g
}

// A projection is the matrices of queries, keys and values, and the place of their results.
type projection struct {
	parts []kernel.Part
	names []string // of the parts' matrices
	from  [3]struct{ part, row int }
	buf   kernel.Buf
	col   [3]int
}

// queries returns the projections: three matrices, or one.
func (l Layer) queries(a Attention) projection {
	var q projection
	nq, nk, nv := l.NHead*l.HeadDim, l.NHeadKV*l.HeadDim, l.NHeadKV*l.ValueDim
	bias := l.optional
	if a.Bias {
		bias = l.Vector
	}
	width := 0
	biased := func(name string, n int, bias []float32) {
		m, matrix := l.projected(a, name, n)
		q.names = append(q.names, matrix)
		q.parts = append(q.parts, kernel.Part{Matrix: m, Bias: bias, Col: width})
		width += kernel.Pad(n)
	}
	part := func(name string, n int) { biased(name, n, bias(name+".bias", n)) }
	if fused := "attn_qkv.weight"; l.Has(fused) {
		if nq%kernel.Panel != 0 || nk%kernel.Panel != 0 {
			check(fmt.Errorf("tensor %q: %d rows of queries and %d of keys, want multiples of %d", l.prefix+fused, nq,
				nk, kernel.Panel))
		}
		if l.role == ofRows && !a.Clipped { // apart: see queriesApart
			bias := bias("attn_qkv.bias", nq+nk+nv)
			if bias == nil && l.Has("attn_q.bias") {
				bias = l.biasesOf(nq, nk, nv)
			}
			for _, of := range [][2]int{{0, nq}, {nq, nq + nk + nv}} {
				from, end := of[0], of[1]
				part := kernel.Part{Matrix: l.rows(fused, l.Config.NEmbd, nq+nk+nv, from, end-from, 1), Col: from}
				if bias != nil {
					part.Bias = bias[from:kernel.Pad(end)]
				}
				q.names, q.parts = append(q.names, l.prefix+fused), append(q.parts, part)
			}
			width = kernel.Pad(nq + nk + nv)
		} else if !l.Has("attn_qkv.bias") && l.Has("attn_q.bias") { // though the matrices are one
			biased("attn_qkv", nq+nk+nv, l.biasesOf(nq, nk, nv))
		} else {
			part("attn_qkv", nq+nk+nv)
		}
		q.col = [3]int{0, nq, nq + nk}
		q.from[1].row, q.from[2].row = nq, nq+nk
	} else {
		part("attn_q", nq)
		if !l.SharedKV {
			q.col[1], q.from[1].part = width, 1
			part("attn_k", nk)
			q.col[2], q.from[2].part = width, 1
			if !a.ValueNorm || l.Has("attn_v.weight") {
				q.from[2].part = 2
				part("attn_v", nv)
			} else {
				width += kernel.Pad(nv)
			}
		}
	}
	q.buf = l.Floats("qkv", kernel.TokRows, width)
	return q
}

// biasesOf returns the biases of queries, keys and values, the given number of each, one after the other.
func (l Layer) biasesOf(nq, nk, nv int) []float32 {
	q, k, v := l.Vector("attn_q.bias", nq), l.Vector("attn_k.bias", nk), l.Vector("attn_v.bias", nv)
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
func (l Layer) projected(a Attention, name string, n int) (kernel.Matrix, string) {
	if name == "attn_q" && a.Gate == GateQuery {
		return l.perHead(name, 0, l.HeadDim)
	}
	name = name + ".weight"
	return l.Matrix(name, cmp.Or(a.In, l.Config.NEmbd), n), l.prefix + name
}

// perHead returns n rows from number `from` on of each head of a projection to queries and gates.
func (l Layer) perHead(name string, from, n int) (kernel.Matrix, string) {
	name = name + ".weight"
	return l.headRows(name, l.Config.NEmbd, l.HeadDim+l.ValueDim, from, n, l.NHead), HeadsName(l.prefix+name, from)
}

// headNorm returns the weights of a norm of queries or keys, and after how many columns they repeat; nil for no
// weights.
func (l Layer) headNorm(kind QKNorm, name string, heads int) ([]float32, int) {
	name = name + ".weight"
	switch kind {
	case NormHead, NormAfterRope:
		return l.Vector(name, l.HeadDim), l.HeadDim
	case NormHeadOptional, NormCenteredOptional:
		return l.optional(name, l.HeadDim), l.HeadDim
	case NormEachHead: // only some models of the architecture have it
		return l.optional(name, l.HeadDim, heads), heads * l.HeadDim
	case NormEachCentered:
		return l.Vector(name, l.HeadDim, heads), heads * l.HeadDim
	case NormGain:
		if !l.Has(name) { // keys
			return nil, l.HeadDim
		}
		return l.Repeated(name, heads, l.HeadDim), heads * l.HeadDim
	case NormRow:
		return l.Vector(name, heads*l.HeadDim), heads * l.HeadDim
	case NormRowOptional:
		return l.optional(name, heads*l.HeadDim), heads * l.HeadDim
	}
	return nil, l.HeadDim
}

// Repeated returns a vector with each of n numbers repeated; nil without memory.
func (l Layer) Repeated(name string, n, times int) []float32 {
	each, all := l.Vector(name, 1, n), l.made(name+" repeated", n*times)
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
func (l Layer) normHeads(kind QKNorm, q projection, name string, col, heads int) {
	if (kind == NormEachHead || kind == NormRowOptional || kind == NormCenteredOptional) && !l.Has(name+".weight") {
		return
	}
	op := kernel.NormRows{
		Dst: q.buf, Src: q.buf, DstCol: col, SrcCol: col, Cols: l.HeadDim, Segs: heads, SegWeights: true,
		Kind: l.Config.Norm, Eps: l.Config.Eps, Scale: 1,
	}
	if kind == NormUnweighted {
		op.SegWeights = false
	} else if kind == NormCenteredOptional {
		op.SegWeights, op.Bias = false, l.optional(name+".bias", l.HeadDim)
	} else if kind == NormEachCentered {
		op.Kind, op.Eps = kernel.LayerNorm, meanEps
		op.Bias = l.optional(name+".bias", l.HeadDim, heads)
	} else if kind == NormRow || kind == NormRowOptional {
		op.Cols, op.Segs, op.SegWeights = heads*l.HeadDim, 1, false
		op.Bias = l.optional(name+".bias", heads*l.HeadDim)
	}
	op.Weight, _ = l.headNorm(kind, name, heads)
	l.Add(op)
}

// normValues normalises values by head, without weights, from where their projection is.
func (l Layer) normValues(q projection) {
	src := q.col[2]
	if q.from[2] == q.from[1] {
		src = q.col[1]
	}
	l.Add(kernel.NormRows{
		Dst: q.buf, Src: q.buf, DstCol: q.col[2], SrcCol: src, Cols: l.ValueDim, Segs: l.NHeadKV,
		Kind: l.Config.Norm, Eps: l.Config.Eps, Scale: 1,
	})
}

// store returns the operation that rotates queries and keys, and stores keys and values.
func (l Layer) store(a Attention, heads kernel.Heads, even balance) kernel.StoreKV {
	s := kernel.StoreKV{
		Heads: heads, Rope: l.Rope.Style, RopeAt: l.Rope.At, NRot: l.Rope.NRot, Eps: l.Config.Eps, Scale: l.AttnScale,
		Temperature: l.Temperature,
		QMul:        even.q, KMul: even.k, VMul: even.v,
		QueriesOnly: l.SharedKV,
	}
	if l.Rope.Style != kernel.RopeNone {
		s.Table = l.ropeTable(l.Rope)
	}
	if a.QKNorm == NormHead || a.QKNorm == NormHeadOptional || a.QKNorm == NormAfterRope {
		s.QNorm, _ = l.headNorm(a.QKNorm, "attn_q_norm", l.NHead)
		if !l.SharedKV {
			s.KNorm, _ = l.headNorm(a.QKNorm, "attn_k_norm", l.NHeadKV)
		}
		s.RopeFirst = a.QKNorm == NormAfterRope
	}
	return s
}

// turn rotates the dimensions of n heads that the layer's second rotation is of: of queries, which are part 0, or of keys, 1.
func (l Layer) turn(heads kernel.Heads, n, part int) {
	r := l.Turned
	if r.Style == kernel.RopeNone {
		return
	}
	col := heads.Col[part]
	heads.NHead, heads.NHeadKV, heads.Tiers, heads.Col = n, n, nil, [3]int{col, col, col}
	l.Add(kernel.StoreKV{
		Heads: heads, Rope: r.Style, RopeAt: r.At, NRot: r.NRot, Table: l.ropeTable(r), Scale: 1, QueriesOnly: true,
	})
}
