package arch

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// Compressed is the sizes of attention to a window and to keys that stand for several positions, which a layer has
// Layer.Every of: with overlapping entries, of which an index chooses the best, or without. Keys are values, heads
// share one, and the result is projected by groups of heads first.
type Compressed struct {
	Groups, Rank int // of heads, and of the projection of each
}

// overlapping are the positions of entries that overlap.
const overlapping = 4

// compression reads the sizes of the attention of all layers, and their rotations, which YaRN stretches if there are
// entries, without growing them.
func (k *keys) compression() {
	c, layers := k.c, k.c.Layers
	c.Latent.QueryRank = k.int("attention.q_lora_rank", 1, maxEmbd)
	c.Latent.RopeDim = k.int("rope.dimension_count", 2, maxHeadDim)
	c.Compressed = Compressed{
		Groups: k.int("attention.output_group_count", 1, maxHead),
		Rank:   k.int("attention.output_lora_rank", 1, maxEmbd),
	}
	k.rope(kernel.RopeNorm)
	window := k.int("attention.sliding_window", 1, maxCtx)
	base := k.float("attention.compress_rope_freq_base", 1.001, 1e15)
	const ratios = "attention.compress_ratios"
	every, err := k.f.Ints(k.name(ratios))
	k.keep(err)
	if len(every) < len(layers) {
		k.fail(ratios, "%d elements, want one for each of the %d layers", len(every), len(layers))
	}
	indexed := false
	for il := range layers {
		l := &layers[il]
		l.Window, l.ValueDim = window, l.HeadDim
		switch every[il] {
		case 0:
			l.Rope.Scaling = noScaling
			continue
		case overlapping:
			indexed = true
		case 128:
		default:
			k.fail(ratios, "%d for layer %d, supported are 0, 4 and 128", every[il], il)
		}
		l.Every, l.Rope.Base = int(every[il]), base
		l.Rope.Scaling.Length, l.Rope.Scaling.AttnFactor = 1, 0
	}
	if indexed {
		k.indexes(kernel.RopeNorm)
	}
	for _, l := range layers {
		switch {
		case l.HeadDim%kernel.Panel != 0 || l.Rope.NRot%kernel.Panel != 0:
			k.fail("attention.key_length", "%d, of which %d are rotated, want multiples of %d", l.HeadDim, l.Rope.NRot, kernel.Panel)
		case l.NHead%c.Compressed.Groups != 0 || c.Compressed.Rank%kernel.Panel != 0:
			k.fail("attention.output_group_count", "%d of %d heads and rank %d, want a divisor, and a multiple of %d", c.Compressed.Groups, l.NHead, c.Compressed.Rank, kernel.Panel)
		case l.NHeadKV != 1:
			k.fail("attention.head_count_kv", "%d, want 1", l.NHeadKV)
		}
	}
}

// back undoes r, and ofEntry rotates an entry by the first of its positions, which ends at the token's.
func (r Rope) back() Rope { r.Back = true; return r }

func (l Layer) ofEntry() Rope {
	r := l.Rope
	r.Shift = 1 - l.Every
	return r
}

// compressionRopes has all rotations computed.
func (b *builder) compressionRopes() {
	for _, l := range b.cfg.Layers {
		b.ropeTable(l.Rope)
		b.ropeTable(l.Rope.back())
		if l.Every > 0 {
			b.ropeTable(l.ofEntry())
		}
	}
}

// compressedAttention is attention to a window, and to entries where the layer has some.
func (l layer) compressedAttention() sublayer {
	c := l.cfg
	dim, key := l.HeadDim, l.NHead*l.HeadDim // where the key begins
	first := l.matrix("attn_q_a.weight", c.NEmbd, c.Latent.QueryRank)
	query := l.matrix("attn_q_b.weight", c.Latent.QueryRank, key)
	in := l.matrix("attn_kv.weight", c.NEmbd, dim)
	entries := l.compressor("attn_compressor", dim)
	index := l.entryIndex()
	out := l.groupedOutput()
	takes := append([]kernel.Matrix{first, in}, append(entries.in, index.in...)...)
	return sublayer{in: takes, run: func(act kernel.Act) {
		qkv := l.floats("qkv", kernel.TokRows, key+dim)
		l.add(kernel.Matmul{Dst: qkv, Act: l.only(act, in), Parts: []kernel.Part{{Matrix: in, Col: key}}})
		l.add(kernel.NormRows{
			Dst: qkv, Src: qkv, DstCol: key, SrcCol: key, Cols: dim, Segs: 1, Eps: c.Eps, Scale: 1,
			Weight: l.vector("attn_kv_a_norm.weight", dim),
		})
		low := l.queryInput(l.only(act, first), first, append(index.low, query)...)
		l.add(kernel.Matmul{Dst: qkv, Act: l.only(low, query), Parts: []kernel.Part{{Matrix: query}}})
		l.add(kernel.NormRows{Dst: qkv, Src: qkv, Cols: dim, Segs: l.NHead, Eps: c.Eps, Scale: 1})
		shape := kernel.Heads{
			NHead: l.NHead, NHeadKV: 1, HeadDim: dim, ValueDim: dim, InKeys: true, KV: l.kv, QKV: qkv, Col: [3]int{0, key},
		}
		shape.Group, shape.KVOffset = l.state(kernel.Group{
			Name: fmt.Sprintf("window %d", l.Window), Bytes: kernel.KVBytes(l.kv, 1, dim, 0), Window: l.Window,
		})
		l.add(l.tail(shape, l.Rope, l.AttnScale, false))
		att := l.floats("att", kernel.TokRows, key)
		attend := kernel.Attend{Heads: shape, Dst: att, Window: l.Window, Sinks: l.vector("attn_sinks.weight", l.NHead)}
		if l.Every > 0 {
			attend.Entries = entries.run(act)
		}
		if index.choose != nil {
			attend.Best, attend.Chosen = c.Latent.Index.Best, index.choose(act, low)
		}
		l.add(attend)
		// Values are rotated, for they are keys: the result is turned back by the token's own position.
		shape.QKV, shape.Col = att, [3]int{}
		l.add(l.tail(shape, l.Rope.back(), 1, true))
		out(att)
	}}
}

// tail stores keys, or leaves them alone, with heads whose last channels are rotated.
func (l layer) tail(shape kernel.Heads, r Rope, scale float32, queries bool) kernel.StoreKV {
	return kernel.StoreKV{
		Heads: shape, Rope: r.Style, RopeAt: shape.HeadDim - r.NRot, NRot: r.NRot, Table: l.ropeTable(r), Eps: l.cfg.Eps, Scale: scale,
		QueriesOnly: queries,
	}
}

// A compressor makes entries of a width out of the layer's input.
type compressor struct {
	in  []kernel.Matrix
	run func(act kernel.Act) kernel.Entries
}

func (l layer) compressor(name string, dim int) compressor {
	if l.Every == 0 {
		return compressor{}
	}
	parts := 1
	if l.Every == overlapping {
		parts = 2
	}
	width := parts * dim
	x := l.matrix(name+"_kv.weight", l.cfg.NEmbd, width)
	weights := l.matrix(name+"_gate.weight", l.cfg.NEmbd, width)
	return compressor{in: []kernel.Matrix{x, weights}, run: func(act kernel.Act) kernel.Entries {
		src := l.floats("compress", kernel.TokRows, 2*width)
		l.add(kernel.Matmul{Dst: src, Act: l.only(act, x, weights), Parts: []kernel.Part{{Matrix: x}, {Matrix: weights, Col: width}}})
		r := l.ofEntry()
		op := kernel.Compress{
			Src: src, Col: [2]int{0, width}, Dim: dim, Parts: parts, KV: l.kv, Eps: l.cfg.Eps,
			Add: l.vector(name+"_ape.weight", width, l.Every), Norm: l.vector(name+"_norm.weight", dim),
			Rope: r.Style, RopeAt: dim - r.NRot, NRot: r.NRot, Table: l.ropeTable(r), Entries: kernel.Entries{Every: l.Every},
		}
		op.Entries.Group, op.Entries.Offset = l.state(kernel.Group{Name: "entries", Bytes: kernel.EntryBytes(l.kv, dim, l.Every)})
		op.Group, op.Offset = l.state(kernel.Group{
			Name: fmt.Sprintf("entries of %d", op.Window()), Bytes: kernel.CompressBytes(dim, parts), Window: op.Window(),
		})
		l.add(op)
		return op.Entries
	}}
}

// entryIndex binds what chooses the best entries, in layers where they overlap: see index.
func (l layer) entryIndex() index {
	if l.Every != overlapping {
		return index{}
	}
	n := l.cfg.Latent.Index
	queries := l.matrix("indexer.attn_q_b.weight", l.cfg.Latent.QueryRank, n.NHead*n.Dim)
	weigh := l.matrix("indexer.proj.weight", l.cfg.NEmbd, n.NHead)
	keys := l.compressor("indexer_compressor", n.Dim)
	return index{in: append(keys.in, weigh), low: []kernel.Matrix{queries}, choose: func(act, low kernel.Act) kernel.Buf {
		q, weights := l.floats("index", kernel.TokRows, n.NHead*n.Dim), l.floats("index.weights", kernel.TokRows, n.NHead)
		entries := keys.run(act)
		l.add(kernel.Matmul{Dst: weights, Act: l.only(act, weigh), Parts: []kernel.Part{{Matrix: weigh}}})
		l.add(kernel.Matmul{Dst: q, Act: l.only(low, queries), Parts: []kernel.Part{{Matrix: queries}}})
		heads := kernel.Heads{NHead: n.NHead, NHeadKV: 1, HeadDim: n.Dim, ValueDim: n.Dim, InKeys: true, KV: l.kv, QKV: q}
		l.add(l.tail(heads, l.Rope, 1, true))
		l.add(kernel.Select{Heads: heads, Dst: l.chosen(), Weights: weights, N: n.Best, Entries: entries})
		return l.chosen()
	}}
}

// groupedOutput binds the two matrices that end the attention: one for each group of heads, and one for what these
// make.
func (l layer) groupedOutput() func(att kernel.Buf) {
	n, width := l.cfg.Compressed, l.NHead*l.HeadDim/l.cfg.Compressed.Groups
	first := l.headRows("attn_output_a.weight", width, n.Rank, 0, n.Rank, n.Groups)
	first.Out, first.N = n.Rank, n.Groups // whole panels of each: they lie as they would apart
	last := l.matrix("attn_output_b.weight", n.Groups*n.Rank, l.cfg.NEmbd)
	return func(att kernel.Buf) {
		of := l.groupAct(n.Groups, width, first)
		low, act := l.floats("att.low", kernel.TokRows, n.Groups*n.Rank), l.act("att.low", kernel.TokRows, n.Groups*n.Rank, last)
		l.add(kernel.ToAct{Act: of, Src: att, Rows: kernel.HeadRows, Cols: width, Heads: kernel.Spread{N: n.Groups, Step: width}})
		l.add(kernel.Matmul{
			Dst: low, Act: of, Rows: kernel.HeadRows, Parts: []kernel.Part{{Matrix: first}}, Heads: kernel.Spread{N: n.Groups, Step: n.Rank},
		})
		l.add(kernel.ToAct{Act: act, Src: low, Cols: n.Groups * n.Rank})
		l.result(act, kernel.Part{Matrix: last}, "")
	}
}
