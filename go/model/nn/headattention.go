package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// BlockAttention is the attention of the tokens of a block to each other and to the text (DFlash). inject stores keys
// and values of the text, computed from hidden states.
func (l Layer) BlockAttention(hidden kernel.Buf) (inject []kernel.Op, block Sublayer) {
	q := l.queries(Attention{QKNorm: NormHead})
	if len(q.parts) != 3 {
		check(fmt.Errorf("tensor %q: queries, keys and values in one, want a matrix of each",
			l.prefix+"attn_qkv.weight"))
		return nil, Sublayer{Run: func(kernel.Act) {}}
	}
	nOut, n := l.NHead*l.ValueDim, l.Config.NEmbd
	out := l.Matrix("attn_output.weight", nOut, n)
	var mats []kernel.Matrix
	for _, p := range q.parts {
		mats = append(mats, p.Matrix)
	}
	heads := kernel.Heads{
		NHead: l.NHead, NHeadKV: l.NHeadKV, HeadDim: l.HeadDim, ValueDim: l.ValueDim, KV: l.kv, QKV: q.buf,
		Col: q.col,
	}
	heads.Group, heads.KVOffset, heads.Tiers = l.place()

	act := l.Act("head.kept", kernel.TokRows, n, mats[1:]...)
	l.Add(kernel.ToAct{Act: act, Src: hidden, Cols: n})
	l.Add(kernel.Matmul{Dst: q.buf, Act: act, Parts: q.parts[1:]})
	store := l.store(Attention{QKNorm: NormHead}, heads, balance{})
	l.Add(store) // where queries would be is nothing
	inject = l.Take()
	return inject, Sublayer{mats, func(act kernel.Act) {
		l.Add(kernel.Matmul{Dst: q.buf, Act: act, Parts: q.parts})
		l.Add(store)
		att := l.Floats("att", kernel.TokRows, nOut)
		attend := kernel.Attend{Heads: heads, Dst: att, Window: l.Window, Ahead: math.MaxInt32}
		if l.Config.Head.Causal {
			attend.Ahead = 0
		}
		if sinks := "attn_sinks.weight"; l.Has(sinks) {
			attend.Sinks = l.Vector(sinks, l.NHead)
		}
		l.Add(attend)
		attAct := l.Act("att", kernel.TokRows, nOut, out)
		l.inner(attAct, att, nOut, "")
		l.result(attAct, kernel.Part{Matrix: out}, "")
	}}
}

// TargetAttention is attention to keys and values of the model. The token is one position after those of the batch, at
// which the last keys are.
func (l Layer) TargetAttention() Sublayer {
	n, nq, nOut := l.Config.NEmbd, l.NHead*l.HeadDim, l.NHead*l.ValueDim
	of, _ := l.Target.read(l.LayerConfig)
	at := l.caches[of.Window]
	query, out := l.Matrix("attn_q.weight", n, nq), l.Matrix("attn_output.weight", nOut, n)
	return Sublayer{[]kernel.Matrix{query}, func(act kernel.Act) {
		buf, att := l.Floats("qkv", kernel.TokRows, nq), l.Floats("att", kernel.TokRows, nOut)
		l.Add(kernel.Matmul{Dst: buf, Act: act, Parts: []kernel.Part{{Matrix: query}}})
		heads := kernel.Heads{
			NHead: l.NHead, NHeadKV: of.NHeadKV, HeadDim: l.HeadDim, ValueDim: l.ValueDim, KV: l.kv, QKV: buf,
			Group: at.group, KVOffset: at.offset, Tiers: at.tiers,
		}
		l.Add(kernel.StoreKV{
			Heads: heads, Rope: l.Rope.Style, NRot: l.Rope.NRot, Table: l.ropeTable(ahead(l.Rope)), Eps: l.Config.Eps,
			Scale: l.AttnScale,
			QNorm: l.Vector("attn_q_norm.weight", l.HeadDim), QMul: at.even.q, QueriesOnly: true,
		})
		attend := kernel.Attend{Heads: heads, Dst: att, Mul: at.even.out}
		if of.Window > 0 {
			attend.Window = of.Window - 1
		}
		l.Add(attend)
		attAct := l.Act("att", kernel.TokRows, nOut, out)
		l.inner(attAct, att, nOut, "")
		l.result(attAct, kernel.Part{Matrix: out}, "post_attention_norm")
	}}
}

// ahead is the rotation of the position after those of the batch.
func ahead(r Rope) Rope {
	r.Shift++
	return r
}

// read returns the layer of the model whose keys and values a layer of a head reads: the last one with a window, or
// without.
func (c *Config) read(l LayerConfig) (of LayerConfig, ok bool) {
	for _, of := range slices.Backward(c.Layers) {
		if of.NHeadKV > 0 && !of.SharedKV && (of.Window > 0) == (l.Window > 0) {
			return of, c.Latent == (Latent{})
		}
	}
	return of, false
}

// reads returns nil if the model has the keys and values that the layers of a head read.
func (h *Head) reads(c *Config) error {
	for il, l := range h.Layers {
		of, ok := c.read(l)
		if !ok || of.HeadDim != l.HeadDim || of.ValueDim != l.ValueDim || l.NHead%of.NHeadKV != 0 || of.Window == 1 ||
			of.Chunked {
			return fmt.Errorf("its layer %d reads keys and values of %d numbers in %d heads, and the model "+
				"keeps none such", il, l.HeadDim, l.NHead)
		}
	}
	return nil
}
