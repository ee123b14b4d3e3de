package nn

import (
	"cmp"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// The layers of models with an encoder and a decoder. A sequence begins with the text that the encoder reads,
// the source, and goes on with the decoder's. A position of the source has in the memory of a decoder's layer
// what that layer attends to of it, and a position behind it the keys and values of its own.

// role is what layers are for.
type role int

const (
	singleStack role = iota // there is no encoder
	inEncoder               // of an encoder: each token of a source sees all of it
	ofRows                  // of an encoder of patches or frames: see Program.Cuts
	inDecoder               // of a decoder: a token sees the source, and those after it up to its own
)

// Encoder builds the layers of an encoder, whose tensors' names begin with stem.
func (b *Builder) Encoder(stem string, build func(l Layer)) {
	b.TensorPrefix, b.role = stem, inEncoder
	for il, sizes := range b.Config.Encoder {
		build(b.Layer(il, sizes))
		b.Program.Encoder = append(b.Program.Encoder, b.Take())
	}
}

// Decoder builds the layers of the decoder. Before them, at the end of the encoder, it stores the keys and values of
// the source in each layer, from the result of the encoder after a norm; "" is none.
func (b *Builder) Decoder(stem, norm string, build func(l Layer)) {
	b.TensorPrefix, b.role, b.byDistance = stem, inDecoder, nil
	n := len(b.Program.Encoder)
	if n == 0 {
		return
	}
	var made []Layer
	var mats []kernel.Matrix
	for il, sizes := range b.Config.Layers {
		l := b.Layer(il, sizes)
		made = append(made, l)
		mats = append(mats, l.Matrix("cross_attn_k.weight", b.Config.NEmbd, l.NHeadKV*l.HeadDim))
		mats = append(mats, l.Matrix("cross_attn_v.weight", b.Config.NEmbd, l.NHeadKV*l.ValueDim))
	}
	act := b.Act("embd", kernel.TokRows, b.Config.NEmbd, mats...)
	if norm == "" {
		b.Add(kernel.ToAct{Act: act, Src: b.X(), Cols: b.Config.NEmbd})
	} else {
		b.Add(b.Norm(act, b.X(), kernel.TokRows, norm))
	}
	for i, l := range made {
		l.keepSource(act, mats[2*i], mats[2*i+1])
	}
	b.Program.Encoder[n-1] = append(b.Program.Encoder[n-1], b.Take()...)
	b.Layers(build)
}

// crossHeads is the shape of cross-attention, with queries, or keys and values, in buf.
func (l Layer) crossHeads(buf kernel.Buf, col [3]int) kernel.Heads {
	at := l.crossed[l.Index]
	return kernel.Heads{
		NHead: l.NHead, NHeadKV: l.NHeadKV, HeadDim: l.HeadDim, ValueDim: l.ValueDim, KV: l.kv, QKV: buf, Col: col,
		Group: at.group, KVOffset: at.offset,
	}
}

// keepSource stores the keys and values of the tokens of a source.
func (l Layer) keepSource(act kernel.Act, key, value kernel.Matrix) {
	var at kvCache
	at.group, at.offset = l.state(l.keysAndValues())
	l.crossed = append(l.crossed, at)
	col := [3]int{0, kernel.Pad(l.NHead * l.HeadDim), 0} // where queries would be is nothing
	col[2] = col[1] + kernel.Pad(key.Out)
	buf := l.Floats("cross", kernel.TokRows, col[2]+value.Out)
	l.Add(kernel.Matmul{
		Dst: buf, Act: l.Only(act, key, value),
		Parts: []kernel.Part{
			{Matrix: key, Bias: l.optional("cross_attn_k.bias", key.Out), Col: col[1]},
			{Matrix: value, Bias: l.optional("cross_attn_v.bias", value.Out), Col: col[2]},
		},
	})
	if a := l.aligns(); a != nil {
		l.align(a.Keys, buf, col[1])
	}
	l.Add(kernel.StoreKV{Heads: l.crossHeads(buf, col), Eps: l.Config.Eps, Scale: 1})
}

// aligns returns where what heads attend by is kept, nil if there are none that align.
func (l Layer) aligns() *Alignment {
	if n := l.alignStep() * len(l.Config.Aligned); n > 0 && l.Program.Aligned == nil {
		l.Program.Aligned = &Alignment{l.Floats("aligned keys", kernel.TokRows, n), l.Floats("aligned", kernel.TokRows, n), n}
	}
	return l.Program.Aligned
}

// alignStep is the columns of a head.
func (l Layer) alignStep() int { return kernel.Pad(l.Config.Layers[0].HeadDim) }

// align keeps the heads of the layer that align, of those side by side from a column of a buffer on.
func (l Layer) align(to, buf kernel.Buf, from int) {
	for i, h := range l.Config.Aligned {
		if h.Layer == l.Index {
			l.Add(kernel.NormRows{
				Dst: to, DstCol: i * l.alignStep(), Src: buf, SrcCol: from + h.Head*l.HeadDim, Cols: l.HeadDim, Segs: 1,
				Kind: kernel.NoNorm, Scale: 1,
			})
		}
	}
}

// CrossAttention is the attention of a decoder to the source.
func (l Layer) CrossAttention() Sublayer {
	nq, nOut := l.NHead*l.HeadDim, l.NHead*l.ValueDim
	query := l.Matrix("cross_attn_q.weight", l.Config.NEmbd, nq)
	out := l.Matrix("cross_attn_o.weight", nOut, l.Config.NEmbd)
	return Sublayer{[]kernel.Matrix{query}, func(act kernel.Act) {
		buf, att := l.Floats("cross", kernel.TokRows, max(nq, nOut)), l.Floats("att", kernel.TokRows, nOut)
		l.Add(kernel.Matmul{
			Dst: buf, Act: act, Parts: []kernel.Part{{Matrix: query, Bias: l.optional("cross_attn_q.bias", nq)}},
		})
		if a := l.aligns(); a != nil {
			l.align(a.Queries, buf, 0)
		}
		heads := l.crossHeads(buf, [3]int{})
		l.Add(kernel.StoreKV{Heads: heads, Eps: l.Config.Eps, Scale: l.AttnScale, QueriesOnly: true})
		l.Add(kernel.Attend{Heads: heads, Dst: att, Side: kernel.SourceSide})
		attAct := l.Act("att", kernel.TokRows, nOut, out)
		l.Add(kernel.ToAct{Act: attAct, Src: att, Cols: nOut})
		l.result(attAct, kernel.Part{Matrix: out, Bias: l.optional("cross_attn_o.bias", l.Config.NEmbd)}, "")
	}}
}

// Answers reads what an answer begins with: the start token, and one that is forced behind it, such as that of a
// language.
func (k *Keys) Answers() {
	k.Config.Start = []int32{0} // the token for padding, which is the first
	const start, forced = "decoder_start_token_id", Own + "forced_bos_token_id"
	if k.Has(start) {
		k.Config.Start[0] = int32(k.Int(start, 0, math.MaxInt32))
	}
	if k.Has(forced) {
		k.Config.Start = append(k.Config.Start, int32(k.Int(forced, 0, math.MaxInt32)))
	}
}

// decoderWidth is the key of the width of the feed-forwards of a decoder whose encoder has others.
const decoderWidth = Own + "decoder.feed_forward_length"

// DecoderLayers reads the number of a decoder's layers, which have the sizes of the encoder's but for feed-forwards.
func (k *Keys) DecoderLayers() {
	// whose keys and values have the same place
	for il, l := range k.Config.Layers {
		if l != k.Config.Layers[0] {
			k.Fail("attention.head_count", "layer %d has other sizes than layer 0, want the same in all", il)
		}
	}
	k.Config.Encoder = k.Config.Layers
	n := k.IntOr("decoder_block_count", len(k.Config.Layers), 1, MaxLayer)
	k.Config.Layers = slices.Repeat(k.Config.Encoder[:1], n)
	if k.Has(decoderWidth) {
		width := k.Int(decoderWidth, 1, MaxFF)
		for il := range k.Config.Layers {
			k.Config.Layers[il].NFF = width
		}
	}
}

// Sides says that source and answer have a table of positions each, of as many rows as the file says that its context
// has.
func (k *Keys) Sides() {
	k.Config.NSide = k.Config.NCtx
	k.Config.NCtx *= 2
}

// Begun adds to the embeddings those of positions, at the beginning of an encoder or decoder, and takes the norm, if
// there is one. A decoder counts positions from behind the source, and may have a table of tokens of its own.
func (b *Builder) Begun() {
	c, by, rows := b.Config, kernel.ByPosition, b.Config.NSide
	if b.role == inDecoder {
		by, rows = kernel.ByAnswer, cmp.Or(c.NAnswer, c.NSide)
		if own := b.TensorPrefix + "token_embd.weight"; b.Has(own) {
			b.Add(kernel.Embed{Dst: b.X(), Table: b.Table(own, c.NEmbd, c.NVocab), Scale: c.EmbedScale})
		}
	}
	table := b.Table(b.TensorPrefix+"position_embd.weight", c.NEmbd, rows)
	b.Add(kernel.Embed{Dst: b.X(), Table: table, By: by, Add: true, Scale: 1})
	if norm := b.TensorPrefix + "token_embd_norm"; b.Has(norm + ".weight") {
		b.Normalise(norm)
	}
}
