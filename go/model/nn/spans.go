package nn

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// Attention to the best spans of Layer.Every positions each: an index has a key for each whole span, the mean of its
// positions' keys, and those behind the last whole one are always seen.

// Spans reads the sizes of the index, and how long spans are.
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
			k.Fail(every, "%d for layer %d, want 0 or a divisor of %d up to the %d positions that are chosen", l.CompressRatio, il, kernel.KVBlock, n.TopK)
		case n.Dim%kernel.Panel != 0 || n.Dim < l.Rope.NRot:
			k.Fail("attention.indexer.key_length", "%d, want a multiple of %d, at least the %d that are rotated", n.Dim, kernel.Panel, l.Rope.NRot)
		}
	}
}

// SpanRopes has the rotations of spans computed.
func (b *Builder) SpanRopes() {
	for _, l := range b.Config.Layers {
		if l.CompressRatio > 0 {
			b.ropeTable(l.ofEntry())
		}
	}
}

// spanIndex binds what chooses the spans that a layer attends to, and their number.
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
		op.Entries.Group, op.Entries.Offset = l.state(kernel.Group{Name: "entries", Bytes: kernel.EntryBytes(l.kv, n.Dim, l.CompressRatio)})
		op.Group, op.Offset = l.state(kernel.Group{
			Name: fmt.Sprintf("entries of %d", op.Window()), Bytes: kernel.CompressBytes(n.Dim, 1), Window: op.Window(),
		})
		l.Add(op)
		l.Add(kernel.StoreKV{
			Heads: heads, Rope: l.Rope.Style, NRot: l.Rope.NRot, Table: l.ropeTable(l.Rope), Eps: l.Config.Eps, Scale: 1,
			QNorm: l.Vector("indexer.q_norm.weight", n.Dim), QueriesOnly: true,
		})
		l.Add(kernel.Select{Heads: heads, Dst: l.chosen(), Even: true, N: best, Entries: op.Entries})
		return l.chosen()
	}
}

// headIndex is spanIndex where each kv head has its own choice, by a head of the index, and a span's score is the best of its
// positions': the index keeps the keys of all.
func (l Layer) headIndex() (in []kernel.Matrix, best int, choose func(act kernel.Act) kernel.Buf) {
	n := l.Config.Latent.Index
	queries, keys := l.indexProjections()
	best = n.TopK / l.CompressRatio
	return []kernel.Matrix{queries, keys}, best, func(act kernel.Act) kernel.Buf {
		heads := l.indexed(act, queries, keys)
		heads.Group, heads.KVOffset = l.state(kernel.Group{Name: "attention", Bytes: kernel.KVBytes(l.kv, 1, n.Dim, 0)})
		l.Add(kernel.StoreKV{
			Heads: heads, Rope: l.Rope.Style, NRot: l.Rope.NRot, Table: l.ropeTable(l.Rope), Eps: l.Config.Eps, Scale: 1,
			QNorm: l.Vector("indexer.q_norm.weight", n.Dim), KNorm: l.Vector("indexer.k_norm.weight", n.Dim),
		})
		chosen := l.Floats("chosen", kernel.TokRows, n.NHead*best)
		l.Add(kernel.Select{Heads: heads, Dst: chosen, Even: true, N: best, Each: l.CompressRatio, Near: n.Local, Choices: n.NHead})
		return chosen
	}
}

// indexProjections binds the matrices of the queries and keys of an index.
func (l Layer) indexProjections() (queries, keys kernel.Matrix) {
	n := l.Config.Latent.Index
	if len(l.tiers) > 0 {
		check(fmt.Errorf("%s chooses positions out of all: its keys and values cannot be in tiers", l.Config.Arch))
	}
	return l.Matrix("indexer.q_proj.weight", l.Config.NEmbd, n.NHead*n.Dim), l.Matrix("indexer.k_proj.weight", l.Config.NEmbd, n.Dim)
}

// indexed computes them.
func (l Layer) indexed(act kernel.Act, queries, keys kernel.Matrix) kernel.Heads {
	n := l.Config.Latent.Index
	key := n.NHead * n.Dim // where it begins
	qk := l.Floats("index", kernel.TokRows, key+n.Dim)
	l.Add(kernel.Matmul{Dst: qk, Act: l.Only(act, queries, keys), Parts: []kernel.Part{{Matrix: queries}, {Matrix: keys, Col: key}}})
	return kernel.Heads{NHead: n.NHead, NHeadKV: 1, HeadDim: n.Dim, ValueDim: n.Dim, InKeys: true, KV: l.kv, QKV: qk, Col: [3]int{0, key}}
}

// HeadSpans reads the sizes of the index of sparse layers, which has a head for each kv head, and of spans: the file counts
// spans that are seen, with the last ones, which always are.
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
			k.Fail(top, "%d of %d positions, want more than the %d that are always seen, and at most %d positions", all, span, last, maxChosen)
		case n.NHead != l.NHeadKV:
			k.Fail("attention.indexer.head_count", "%d, want the %d key-value heads of layer %d", n.NHead, l.NHeadKV, il)
		case n.Dim%kernel.Panel != 0 || n.Dim < l.Rope.NRot:
			k.Fail("attention.indexer.key_length", "%d, want a multiple of %d, at least the %d that are rotated", n.Dim, kernel.Panel, l.Rope.NRot)
		}
	}
}
