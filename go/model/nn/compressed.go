package nn

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// Compressed is the sizes of attention to a window and to entries (DeepSeek V4): an entry is a key for CompressRatio
// positions, 4 with overlap, of which an indexer selects the best, or 128 without. Keys are also the values, heads
// share one, and the results are projected by groups of heads first.
type Compressed struct {
	Groups, Rank int // of heads, and of the projection of each
}

// overlapping is the CompressRatio of entries that overlap.
const overlapping = 4

// CompressedAttention reads the sizes of the attention of all layers, and their rotations. Layers with entries have
// YaRN, without its change of lengths.
func (k *Keys) CompressedAttention() {
	c, layers := k.Config, k.Config.Layers
	c.Latent.QueryRank = k.Int("attention.q_lora_rank", 1, MaxEmbd)
	c.Latent.RopeDim = k.Int("rope.dimension_count", 2, MaxHeadDim)
	c.Compressed = Compressed{
		Groups: k.Int("attention.output_group_count", 1, MaxHead),
		Rank:   k.Int("attention.output_lora_rank", 1, MaxEmbd),
	}
	k.Rope(kernel.RopeNorm)
	window := k.Int("attention.sliding_window", 1, MaxCtx)
	base := k.Float("attention.compress_rope_freq_base", 1.001, 1e15)
	const ratios = "attention.compress_ratios"
	every, err := k.File.Ints(k.Name(ratios))
	k.Check(err)
	if len(every) < len(layers) {
		k.Fail(ratios, "%d elements, want one for each of the %d layers", len(every), len(layers))
	}
	indexed := false
	for il := range layers {
		l := &layers[il]
		l.Window, l.ValueDim = window, l.HeadDim
		switch every[il] {
		case 0:
			l.Rope.Scaling = NoScaling
			continue
		case overlapping:
			indexed = true
		case 128:
		default:
			k.Fail(ratios, "%d for layer %d, supported are 0, 4 and 128", every[il], il)
		}
		l.CompressRatio, l.Rope.Base = int(every[il]), base
		l.Rope.Scaling.Length, l.Rope.Scaling.AttnFactor = 1, 0
	}
	if indexed {
		k.Indexer(kernel.RopeNorm)
	}
	for _, l := range layers {
		switch {
		case l.HeadDim%kernel.Panel != 0 || l.Rope.NRot%kernel.Panel != 0:
			k.Fail("attention.key_length", "%d, of which %d are rotated, want multiples of %d", l.HeadDim, l.Rope.NRot,
				kernel.Panel)
		case l.NHead%c.Compressed.Groups != 0 || c.Compressed.Rank%kernel.Panel != 0:
			k.Fail("attention.output_group_count", "%d of %d heads and rank %d, want a divisor, and a multiple of %d",
				c.Compressed.Groups, l.NHead, c.Compressed.Rank, kernel.Panel)
		case l.NHeadKV != 1:
			k.Fail("attention.head_count_kv", "%d, want 1", l.NHeadKV)
		}
	}
}

// back is the inverse rotation.
func (r Rope) back() Rope { r.Back = true; return r }

// ofEntry is the rotation of an entry, by the first of its positions; the last one is the token's.
func (l LayerConfig) ofEntry() Rope {
	r := l.Rope
	r.Shift = 1 - l.CompressRatio
	return r
}

// CompressionRopes has Begin compute all rotations of such attention.
func (b *Builder) CompressionRopes() {
	for _, l := range b.Config.Layers {
		b.ropeTable(l.Rope)
		b.ropeTable(l.Rope.back())
		if l.CompressRatio > 0 {
			b.ropeTable(l.ofEntry())
		}
	}
}

// CompressedAttention is attention to a window, and to entries in layers that have them.
func (l Layer) CompressedAttention() Sublayer {
	c := l.Config
	dim, key := l.HeadDim, l.NHead*l.HeadDim // where the key begins
	first := l.Matrix("attn_q_a.weight", c.NEmbd, c.Latent.QueryRank)
	query := l.Matrix("attn_q_b.weight", c.Latent.QueryRank, key)
	in := l.Matrix("attn_kv.weight", c.NEmbd, dim)
	entries := l.compressor("attn_compressor", dim)
	index := l.entryIndex()
	out := l.groupedOutput()
	takes := append([]kernel.Matrix{first, in}, append(entries.in, index.in...)...)
	return Sublayer{In: takes, Run: func(act kernel.Act) {
		qkv := l.Floats("qkv", kernel.TokRows, key+dim)
		l.Add(kernel.Matmul{Dst: qkv, Act: l.Only(act, in), Parts: []kernel.Part{{Matrix: in, Col: key}}})
		l.Add(kernel.NormRows{
			Dst: qkv, Src: qkv, DstCol: key, SrcCol: key, Cols: dim, Segs: 1, Eps: c.Eps, Scale: 1,
			Weight: l.Vector("attn_kv_a_norm.weight", dim),
		})
		low := l.queryInput(l.Only(act, first), first, append(index.low, query)...)
		l.Add(kernel.Matmul{Dst: qkv, Act: l.Only(low, query), Parts: []kernel.Part{{Matrix: query}}})
		l.Add(kernel.NormRows{Dst: qkv, Src: qkv, Cols: dim, Segs: l.NHead, Eps: c.Eps, Scale: 1})
		shape := kernel.Heads{
			NHead: l.NHead, NHeadKV: 1, HeadDim: dim, ValueDim: dim, InKeys: true, KV: l.kv, QKV: qkv,
			Col: [3]int{0, key},
		}
		shape.Group, shape.KVOffset = l.state(kernel.Group{
			Name: fmt.Sprintf("window %d", l.Window), Bytes: kernel.KVBytes(l.kv, 1, dim, 0), Window: l.Window,
		})
		l.Add(l.tail(shape, l.Rope, l.AttnScale, false))
		att := l.Floats("att", kernel.TokRows, key)
		attend := kernel.Attend{
			Heads: shape, Dst: att, Window: l.Window, Sinks: l.Vector("attn_sinks.weight", l.NHead),
		}
		if l.CompressRatio > 0 {
			attend.Entries = entries.run(act)
		}
		if index.choose != nil {
			attend.Best, attend.Chosen = c.Latent.Index.TopK, index.choose(act, low)
		}
		l.Add(attend)
		// Values are rotated, for they are keys: the result is turned back by the token's own position.
		shape.QKV, shape.Col = att, [3]int{}
		l.Add(l.tail(shape, l.Rope.back(), 1, true))
		out(att)
	}}
}

// tail rotates the last channels of heads, and stores keys unless queriesOnly.
func (l Layer) tail(shape kernel.Heads, r Rope, scale float32, queriesOnly bool) kernel.StoreKV {
	return kernel.StoreKV{
		Heads: shape, Rope: r.Style, RopeAt: shape.HeadDim - r.NRot, NRot: r.NRot, Table: l.ropeTable(r),
		Eps: l.Config.Eps, Scale: scale,
		QueriesOnly: queriesOnly,
	}
}

// A compressor makes entries of the input of a layer.
type compressor struct {
	in  []kernel.Matrix
	run func(act kernel.Act) kernel.Entries
}

func (l Layer) compressor(name string, dim int) compressor {
	if l.CompressRatio == 0 {
		return compressor{}
	}
	parts := 1
	if l.CompressRatio == overlapping {
		parts = 2
	}
	width := parts * dim
	x := l.Matrix(name+"_kv.weight", l.Config.NEmbd, width)
	weights := l.Matrix(name+"_gate.weight", l.Config.NEmbd, width)
	return compressor{in: []kernel.Matrix{x, weights}, run: func(act kernel.Act) kernel.Entries {
		src := l.Floats("compress", kernel.TokRows, 2*width)
		l.Add(kernel.Matmul{
			Dst: src, Act: l.Only(act, x, weights),
			Parts: []kernel.Part{{Matrix: x}, {Matrix: weights, Col: width}},
		})
		r := l.ofEntry()
		op := kernel.Compress{
			Src: src, Col: [2]int{0, width}, Dim: dim, Parts: parts, KV: l.kv, Eps: l.Config.Eps,
			Add: l.Vector(name+"_ape.weight", width, l.CompressRatio), Norm: l.Vector(name+"_norm.weight", dim),
			Rope: r.Style, RopeAt: dim - r.NRot, NRot: r.NRot, Table: l.ropeTable(r),
			Entries: kernel.Entries{Every: l.CompressRatio},
		}
		op.Entries.Group, op.Entries.Offset = l.state(kernel.Group{
			Name: "entries", Bytes: kernel.EntryBytes(l.kv, dim, l.CompressRatio),
		})
		op.Group, op.Offset = l.state(kernel.Group{
			Name: fmt.Sprintf("entries of %d", op.Window()), Bytes: kernel.CompressBytes(dim, parts),
			Window: op.Window(),
		})
		l.Add(op)
		return op.Entries
	}}
}

// entryIndex returns the indexer of entries, in layers where they overlap.
func (l Layer) entryIndex() index {
	if l.CompressRatio != overlapping {
		return index{}
	}
	n := l.Config.Latent.Index
	queries := l.Matrix("indexer.attn_q_b.weight", l.Config.Latent.QueryRank, n.NHead*n.Dim)
	weigh := l.Matrix("indexer.proj.weight", l.Config.NEmbd, n.NHead)
	keys := l.compressor("indexer_compressor", n.Dim)
	return index{in: append(keys.in, weigh), low: []kernel.Matrix{queries},
		choose: func(act, low kernel.Act) kernel.Buf {
			q, weights := l.Floats("index", kernel.TokRows, n.NHead*n.Dim),
				l.Floats("index.weights", kernel.TokRows, n.NHead)
			entries := keys.run(act)
			l.Add(kernel.Matmul{Dst: weights, Act: l.Only(act, weigh), Parts: []kernel.Part{{Matrix: weigh}}})
			l.Add(kernel.Matmul{Dst: q, Act: l.Only(low, queries), Parts: []kernel.Part{{Matrix: queries}}})
			heads := kernel.Heads{
				NHead: n.NHead, NHeadKV: 1, HeadDim: n.Dim, ValueDim: n.Dim, InKeys: true, KV: l.kv, QKV: q,
			}
			l.Add(l.tail(heads, l.Rope, 1, true))
			l.Add(kernel.Select{Heads: heads, Dst: l.chosen(), Weights: weights, N: n.TopK, Entries: entries})
			return l.chosen()
		}}
}

// groupedOutput returns what adds the two output projections: one per group of heads, and one of their results.
func (l Layer) groupedOutput() func(att kernel.Buf) {
	n, width := l.Config.Compressed, l.NHead*l.HeadDim/l.Config.Compressed.Groups
	first := l.eachHead("attn_output_a.weight", width, n.Rank, 0, n.Rank, n.Groups)
	last := l.Matrix("attn_output_b.weight", n.Groups*n.Rank, l.Config.NEmbd)
	return func(att kernel.Buf) {
		of := l.groupAct(n.Groups, width, first)
		low, act := l.Floats("att.low", kernel.TokRows, n.Groups*n.Rank),
			l.Act("att.low", kernel.TokRows, n.Groups*n.Rank, last)
		l.Add(kernel.ToAct{
			Act: of, Src: att, Rows: kernel.HeadRows, Cols: width,
			Heads: kernel.Spread{N: n.Groups, Step: width},
		})
		l.Add(kernel.Matmul{
			Dst: low, Act: of, Rows: kernel.HeadRows, Parts: []kernel.Part{{Matrix: first}},
			Heads: kernel.Spread{N: n.Groups, Step: n.Rank},
		})
		l.Add(kernel.ToAct{Act: act, Src: low, Cols: n.Groups * n.Rank})
		l.result(act, kernel.Part{Matrix: last}, "")
	}
}
