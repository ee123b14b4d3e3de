package arch

import "github.com/quern-llm/quern/go/kernel"

// The layers of models with an encoder and a decoder. A sequence begins with the text that the encoder reads,
// the source, and goes on with the decoder's. A position of the source has in the memory of a decoder's layer
// what that layer attends to of it, and a position behind it the keys and values of its own.

// role is what layers are for.
type role int

const (
	singleStack role = iota // there is no encoder
	inEncoder               // of an encoder: each token of a source sees all of it
	inDecoder               // of a decoder: a token sees the source, and those after it up to its own
)

// encoder builds the layers of an encoder.
func (b *builder) encoder(stem string, build func(l layer)) {
	b.stem, b.role = stem, inEncoder
	for il, sizes := range b.cfg.Encoder {
		build(b.layer(il, sizes))
		b.p.Encoder = append(b.p.Encoder, b.take())
	}
}

// decoder builds the layers that answer, and before them their keys and values of a source: of the encoder's result,
// normalised.
func (b *builder) decoder(stem, norm string, build func(l layer)) {
	b.stem, b.role, b.byDistance = stem, inDecoder, nil
	n := len(b.p.Encoder)
	if n == 0 {
		return
	}
	var made []layer
	var mats []kernel.Matrix
	for il, sizes := range b.cfg.Layers {
		l := b.layer(il, sizes)
		made = append(made, l)
		mats = append(mats, l.matrix("cross_attn_k.weight", b.cfg.NEmbd, l.NHeadKV*l.HeadDim))
		mats = append(mats, l.matrix("cross_attn_v.weight", b.cfg.NEmbd, l.NHeadKV*l.ValueDim))
	}
	act := b.act("embd", kernel.TokRows, b.cfg.NEmbd, mats...)
	b.add(b.norm(act, b.x(), kernel.TokRows, norm))
	for i, l := range made {
		l.keepSource(act, mats[2*i], mats[2*i+1])
	}
	b.p.Encoder[n-1] = append(b.p.Encoder[n-1], b.take()...)
	b.layers(build)
}

// crossHeads is the shape of the attention to a source, whose queries, or keys and values, are in a buffer.
func (l layer) crossHeads(buf kernel.Buf, col [3]int) kernel.Heads {
	at := l.crossed[l.il]
	return kernel.Heads{
		NHead: l.NHead, NHeadKV: l.NHeadKV, HeadDim: l.HeadDim, ValueDim: l.ValueDim, KV: l.kv, QKV: buf, Col: col,
		Group: at.group, KVOffset: at.offset,
	}
}

// keepSource stores the keys and values of tokens of a source.
func (l layer) keepSource(act kernel.Act, key, value kernel.Matrix) {
	var at kvCache
	at.group, at.offset = l.state(l.keysAndValues())
	l.crossed = append(l.crossed, at)
	col := [3]int{0, kernel.Pad(l.NHead * l.HeadDim), 0} // where queries would be is nothing
	col[2] = col[1] + kernel.Pad(key.Out)
	buf := l.floats("cross", kernel.TokRows, col[2]+value.Out)
	l.add(kernel.Matmul{
		Dst: buf, Act: l.only(act, key, value), Parts: []kernel.Part{{Matrix: key, Col: col[1]}, {Matrix: value, Col: col[2]}},
	})
	l.add(kernel.StoreKV{Heads: l.crossHeads(buf, col), Eps: l.cfg.Eps, Scale: 1})
}

// crossAttention is attention to the source.
func (l layer) crossAttention() sublayer {
	nq, nOut := l.NHead*l.HeadDim, l.NHead*l.ValueDim
	query := l.matrix("cross_attn_q.weight", l.cfg.NEmbd, nq)
	out := l.matrix("cross_attn_o.weight", nOut, l.cfg.NEmbd)
	return sublayer{[]kernel.Matrix{query}, func(act kernel.Act) {
		buf, att := l.floats("cross", kernel.TokRows, max(nq, nOut)), l.floats("att", kernel.TokRows, nOut)
		l.add(kernel.Matmul{Dst: buf, Act: act, Parts: []kernel.Part{{Matrix: query}}})
		heads := l.crossHeads(buf, [3]int{})
		l.add(kernel.StoreKV{Heads: heads, Eps: l.cfg.Eps, Scale: l.AttnScale, QueriesOnly: true})
		l.add(kernel.Attend{Heads: heads, Dst: att, Side: kernel.SourceSide})
		attAct := l.act("att", kernel.TokRows, nOut, out)
		l.add(kernel.ToAct{Act: attAct, Src: att, Cols: nOut})
		l.result(attAct, kernel.Part{Matrix: out}, "")
	}}
}
