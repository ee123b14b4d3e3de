package arch

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// Attention to the best spans of Layer.Every positions each: an index has a key for each whole span, the mean of its
// positions' keys, and those behind the last whole one are always seen.

// spans reads the sizes of the index, and how long spans are.
func (k *keys) spans() {
	const every = "attention.compress_ratios"
	n := &k.c.Latent.Index
	*n = Index{
		NHead: k.int("attention.indexer.head_count", 1, maxHead),
		Dim:   k.int("attention.indexer.key_length", 1, maxHeadDim),
		Best:  k.int("attention.indexer.top_k", 1, maxChosen),
		Rope:  kernel.RopeNeox,
	}
	k.eachOr(every, 0, kernel.KVBlock, func(l *Layer, positions int) { l.Every = positions })
	for il := range k.c.Layers {
		l := &k.c.Layers[il]
		if l.NHeadKV == 0 {
			l.Every = 0
		}
		switch {
		case l.Every == 0:
		case l.Every == 1 || kernel.KVBlock%l.Every != 0 || l.Every > n.Best:
			k.fail(every, "%d for layer %d, want 0 or a divisor of %d up to the %d positions that are chosen", l.Every, il, kernel.KVBlock, n.Best)
		case n.Dim%kernel.Panel != 0 || n.Dim < l.Rope.NRot:
			k.fail("attention.indexer.key_length", "%d, want a multiple of %d, at least the %d that are rotated", n.Dim, kernel.Panel, l.Rope.NRot)
		}
	}
}

// spanRopes has the rotations of spans computed.
func (b *builder) spanRopes() {
	for _, l := range b.cfg.Layers {
		if l.Every > 0 {
			b.ropeTable(l.ofEntry())
		}
	}
}

// spanIndex binds what chooses the spans that a layer attends to, and their number.
func (l layer) spanIndex() (in []kernel.Matrix, best int, choose func(act kernel.Act) kernel.Buf) {
	if l.Every == 0 {
		return nil, 0, nil
	}
	n := l.cfg.Latent.Index
	queries, keys := l.indexProjections()
	best = n.Best / l.Every
	return []kernel.Matrix{queries, keys}, best, func(act kernel.Act) kernel.Buf {
		heads, r := l.indexed(act, queries, keys), l.ofEntry()
		op := kernel.Compress{
			Src: heads.QKV, Col: [2]int{heads.Col[1]}, Even: true, Dim: n.Dim, Parts: 1, KV: l.kv, Eps: l.cfg.Eps,
			Norm: l.vector("indexer.k_norm.weight", n.Dim),
			Rope: r.Style, NRot: r.NRot, Table: l.ropeTable(r), Entries: kernel.Entries{Every: l.Every},
		}
		op.Entries.Group, op.Entries.Offset = l.state(kernel.Group{Name: "entries", Bytes: kernel.EntryBytes(l.kv, n.Dim, l.Every)})
		op.Group, op.Offset = l.state(kernel.Group{
			Name: fmt.Sprintf("entries of %d", op.Window()), Bytes: kernel.CompressBytes(n.Dim, 1), Window: op.Window(),
		})
		l.add(op)
		l.add(kernel.StoreKV{
			Heads: heads, Rope: l.Rope.Style, NRot: l.Rope.NRot, Table: l.ropeTable(l.Rope), Eps: l.cfg.Eps, Scale: 1,
			QNorm: l.vector("indexer.q_norm.weight", n.Dim), QueriesOnly: true,
		})
		l.add(kernel.Select{Heads: heads, Dst: l.chosen(), Even: true, N: best, Entries: op.Entries})
		return l.chosen()
	}
}

// headIndex is spanIndex where each kv head has its own choice, by a head of the index, and a span's score is the best of its
// positions': the index keeps the keys of all.
func (l layer) headIndex() (in []kernel.Matrix, best int, choose func(act kernel.Act) kernel.Buf) {
	n := l.cfg.Latent.Index
	queries, keys := l.indexProjections()
	best = n.Best / l.Every
	return []kernel.Matrix{queries, keys}, best, func(act kernel.Act) kernel.Buf {
		heads := l.indexed(act, queries, keys)
		heads.Group, heads.KVOffset = l.state(kernel.Group{Name: "attention", Bytes: kernel.KVBytes(l.kv, 1, n.Dim, 0)})
		l.add(kernel.StoreKV{
			Heads: heads, Rope: l.Rope.Style, NRot: l.Rope.NRot, Table: l.ropeTable(l.Rope), Eps: l.cfg.Eps, Scale: 1,
			QNorm: l.vector("indexer.q_norm.weight", n.Dim), KNorm: l.vector("indexer.k_norm.weight", n.Dim),
		})
		chosen := l.floats("chosen", kernel.TokRows, n.NHead*best)
		l.add(kernel.Select{Heads: heads, Dst: chosen, Even: true, N: best, Each: l.Every, Near: n.Near, Choices: n.NHead})
		return chosen
	}
}

// indexProjections binds the matrices of the queries and keys of an index.
func (l layer) indexProjections() (queries, keys kernel.Matrix) {
	n := l.cfg.Latent.Index
	if len(l.tiers) > 0 {
		check(fmt.Errorf("%s chooses positions out of all: its keys and values cannot be in tiers", l.cfg.Arch))
	}
	return l.matrix("indexer.q_proj.weight", l.cfg.NEmbd, n.NHead*n.Dim), l.matrix("indexer.k_proj.weight", l.cfg.NEmbd, n.Dim)
}

// indexed computes them.
func (l layer) indexed(act kernel.Act, queries, keys kernel.Matrix) kernel.Heads {
	n := l.cfg.Latent.Index
	key := n.NHead * n.Dim // where it begins
	qk := l.floats("index", kernel.TokRows, key+n.Dim)
	l.add(kernel.Matmul{Dst: qk, Act: l.only(act, queries, keys), Parts: []kernel.Part{{Matrix: queries}, {Matrix: keys, Col: key}}})
	return kernel.Heads{NHead: n.NHead, NHeadKV: 1, HeadDim: n.Dim, ValueDim: n.Dim, InKeys: true, KV: l.kv, QKV: qk, Col: [3]int{0, key}}
}

// headSpans reads the sizes of the index of sparse layers, which has a head for each kv head, and of spans: the file counts
// spans that are seen, with the last ones, which always are.
func (k *keys) headSpans() {
	const size, near, top = "attention.indexer.block_size", "attention.indexer.local_blocks", "attention.indexer.top_k"
	n := &k.c.Latent.Index
	*n = Index{
		NHead: k.int("attention.indexer.head_count", 1, maxHead),
		Dim:   k.int("attention.indexer.key_length", 1, maxHeadDim),
	}
	span, last, all := k.int(size, 2, maxCtx), k.int(near, 1, maxChosen), k.int(top, 2, maxChosen)
	n.Best, n.Near = (all-last)*span, last*span
	for il := range k.c.Layers {
		l := &k.c.Layers[il]
		if !l.Sparse {
			continue
		}
		l.Every = span
		switch {
		case kernel.KVBlock%span != 0 && span%kernel.KVBlock != 0:
			k.fail(size, "%d, want a divisor or a multiple of %d", span, kernel.KVBlock)
		case last >= all || all*span > maxChosen:
			k.fail(top, "%d of %d positions, want more than the %d that are always seen, and at most %d positions", all, span, last, maxChosen)
		case n.NHead != l.NHeadKV:
			k.fail("attention.indexer.head_count", "%d, want the %d key-value heads of layer %d", n.NHead, l.NHeadKV, il)
		case n.Dim%kernel.Panel != 0 || n.Dim < l.Rope.NRot:
			k.fail("attention.indexer.key_length", "%d, want a multiple of %d, at least the %d that are rotated", n.Dim, kernel.Panel, l.Rope.NRot)
		}
	}
}
