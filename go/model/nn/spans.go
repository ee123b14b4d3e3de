package nn

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// Attention to the best spans of LayerConfig.CompressRatio positions: an indexer has a key per whole span, the mean of
// the keys of its positions. The positions after the last whole span are always attended to.

// Spans reads the sizes of the indexer and of spans.
func (k *Keys) Spans() {
	const every = "attention.compress_ratios"
	n := &k.Config.Latent.Index
	*n = Index{
		NHead: k.Int("attention.indexer.head_count", 1, MaxHead),
		Dim:   k.Int("attention.indexer.key_length", 1, MaxHeadDim),
		TopK:  k.Int("attention.indexer.top_k", 1, maxChosen),
		Rope:  kernel.RopeNeox,
	}
	k.eachOr(every, 0, kernel.KVBlock, func(l *LayerConfig, positions int) { l.CompressRatio = positions })
	for il := range k.Config.Layers {
		l := &k.Config.Layers[il]
		if l.NHeadKV == 0 {
			l.CompressRatio = 0
		}
		switch {
		case l.CompressRatio == 0:
		case l.CompressRatio == 1 || kernel.KVBlock%l.CompressRatio != 0 || l.CompressRatio > n.TopK:
			k.Fail(every, "%d for layer %d, want 0 or a divisor of %d up to the %d positions that are chosen",
				l.CompressRatio, il, kernel.KVBlock, n.TopK)
		case n.Dim%kernel.Panel != 0 || n.Dim < l.Rope.NRot:
			k.Fail("attention.indexer.key_length", "%d, want a multiple of %d, at least the %d that are rotated", n.Dim,
				kernel.Panel, l.Rope.NRot)
		}
	}
}

// SpanRopes has Begin compute the rotations of spans.
func (b *Builder) SpanRopes() {
	for _, l := range b.Config.Layers {
		if l.CompressRatio > 0 {
			b.ropeTable(l.ofEntry())
		}
	}
}

// spanIndex returns the indexer of spans for all heads: the matrices that it needs, the number of spans that it
// selects, and what adds its operations.
func (l Layer) spanIndex() (in []kernel.Matrix, best int, choose func(act kernel.Act) kernel.Buf) {
	if l.CompressRatio == 0 {
		return nil, 0, nil
	}
	n := l.Config.Latent.Index
	queries, keys := l.indexProjections()
	best = n.TopK / l.CompressRatio
	return []kernel.Matrix{queries, keys}, best, func(act kernel.Act) kernel.Buf {
		heads, r := l.indexed(act, queries, keys), l.ofEntry()
		op := kernel.Compress{
			Src: heads.QKV, Col: [2]int{heads.Col[1]}, Even: true, Dim: n.Dim, Parts: 1, KV: l.kv, Eps: l.Config.Eps,
			Norm: l.Vector("indexer.k_norm.weight", n.Dim),
			Rope: r.Style, NRot: r.NRot, Table: l.ropeTable(r), Entries: kernel.Entries{Every: l.CompressRatio},
		}
		op.Entries.Group, op.Entries.Offset = l.state(kernel.Group{
			Name: "entries", Bytes: kernel.EntryBytes(l.kv, n.Dim, l.CompressRatio),
		})
		op.Group, op.Offset = l.state(kernel.Group{
			Name: fmt.Sprintf("entries of %d", op.Window()), Bytes: kernel.CompressBytes(n.Dim, 1), Window: op.Window(),
		})
		l.Add(op)
		l.Add(kernel.StoreKV{
			Heads: heads, Rope: l.Rope.Style, NRot: l.Rope.NRot, Table: l.ropeTable(l.Rope), Eps: l.Config.Eps,
			Scale: 1,
			QNorm: l.Vector("indexer.q_norm.weight", n.Dim), QueriesOnly: true,
		})
		l.Add(kernel.Select{Heads: heads, Dst: l.chosen(), Even: true, N: best, Entries: op.Entries})
		return l.chosen()
	}
}

// headIndex is spanIndex with a selection per KV head, by one head of the indexer each. The score of a span is that of
// its best position: the keys of all are stored.
func (l Layer) headIndex() (in []kernel.Matrix, best int, choose func(act kernel.Act) kernel.Buf) {
	n := l.Config.Latent.Index
	queries, keys := l.indexProjections()
	best = n.TopK / l.CompressRatio
	return []kernel.Matrix{queries, keys}, best, func(act kernel.Act) kernel.Buf {
		heads := l.indexed(act, queries, keys)
		heads.Group, heads.KVOffset = l.state(kernel.Group{
			Name: "attention", Bytes: kernel.KVBytes(l.kv, 1, n.Dim, 0),
		})
		l.Add(kernel.StoreKV{
			Heads: heads, Rope: l.Rope.Style, NRot: l.Rope.NRot, Table: l.ropeTable(l.Rope), Eps: l.Config.Eps,
			Scale: 1,
			QNorm: l.Vector("indexer.q_norm.weight", n.Dim), KNorm: l.Vector("indexer.k_norm.weight", n.Dim),
		})
		chosen := l.Floats("chosen", kernel.TokRows, n.NHead*best)
		l.Add(kernel.Select{
			Heads: heads, Dst: chosen, Even: true, N: best, Each: l.CompressRatio, Near: n.Local,
			Choices: n.NHead,
		})
		return chosen
	}
}

// indexProjections returns the matrices of the queries and keys of an indexer.
func (l Layer) indexProjections() (queries, keys kernel.Matrix) {
	n := l.Config.Latent.Index
	if len(l.tiers) > 0 {
		check(fmt.Errorf("%s chooses positions out of all: its keys and values cannot be in tiers", l.Config.Arch))
	}
	return l.Matrix("indexer.q_proj.weight", l.Config.NEmbd, n.NHead*n.Dim),
		l.Matrix("indexer.k_proj.weight", l.Config.NEmbd, n.Dim)
}

// indexed computes queries and keys of an indexer, and returns their shape.
func (l Layer) indexed(act kernel.Act, queries, keys kernel.Matrix) kernel.Heads {
	n := l.Config.Latent.Index
	key := n.NHead * n.Dim // where it begins
	qk := l.Floats("index", kernel.TokRows, key+n.Dim)
	l.Add(kernel.Matmul{
		Dst: qk, Act: l.Only(act, queries, keys),
		Parts: []kernel.Part{{Matrix: queries}, {Matrix: keys, Col: key}},
	})
	return kernel.Heads{
		NHead: n.NHead, NHeadKV: 1, HeadDim: n.Dim, ValueDim: n.Dim, InKeys: true, KV: l.kv, QKV: qk,
		Col: [3]int{0, key},
	}
}

// HeadSpans reads the sizes of an indexer with a head per KV head, and of spans. The number of spans in the file
// includes the last ones, which are always selected.
func (k *Keys) HeadSpans() {
	const size, near, top = "attention.indexer.block_size", "attention.indexer.local_blocks", "attention.indexer.top_k"
	n := &k.Config.Latent.Index
	*n = Index{
		NHead: k.Int("attention.indexer.head_count", 1, MaxHead),
		Dim:   k.Int("attention.indexer.key_length", 1, MaxHeadDim),
	}
	span, last, all := k.Int(size, 2, MaxCtx), k.Int(near, 1, maxChosen), k.Int(top, 2, maxChosen)
	n.TopK, n.Local = (all-last)*span, last*span
	for il := range k.Config.Layers {
		l := &k.Config.Layers[il]
		if !l.Sparse {
			continue
		}
		l.CompressRatio = span
		switch {
		case kernel.KVBlock%span != 0 && span%kernel.KVBlock != 0:
			k.Fail(size, "%d, want a divisor or a multiple of %d", span, kernel.KVBlock)
		case last >= all || all*span > maxChosen:
			k.Fail(top, "%d of %d positions, want more than the %d that are always seen, and at most %d positions", all,
				span, last, maxChosen)
		case n.NHead != l.NHeadKV:
			k.Fail("attention.indexer.head_count", "%d, want the %d key-value heads of layer %d", n.NHead, l.NHeadKV,
				il)
		case n.Dim%kernel.Panel != 0 || n.Dim < l.Rope.NRot:
			k.Fail("attention.indexer.key_length", "%d, want a multiple of %d, at least the %d that are rotated", n.Dim,
				kernel.Panel, l.Rope.NRot)
		}
	}
}
