package nn

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// indexEps is the epsilon of the norm of an indexer's keys in most models. Files do not have it.
const indexEps = 1e-6

// An index is an indexer: it selects the positions that a layer attends to, if there are more than TopK, by small
// queries and keys (DeepSeek-AI 2025, "DeepSeek-V3.2").
type index struct {
	in  []kernel.Matrix // what multiplies the layer's input
	low []kernel.Matrix // and what multiplies that of its queries
	// choose adds the operations, given these inputs, and returns the buffer of the positions.
	choose func(act, low kernel.Act) kernel.Buf
}

// index returns the indexer of the layer. Layers without one use the selection of the layer before.
func (l Layer) index() index {
	n := l.latents().Index
	if n.TopK == 0 {
		return index{choose: func(kernel.Act, kernel.Act) kernel.Buf { return 0 }}
	}
	if !l.Indexed {
		return index{choose: func(kernel.Act, kernel.Act) kernel.Buf { return l.chosen() }}
	}
	if !l.lowQueries() {
		check(fmt.Errorf("tensor %q: queries of an index need attn_q_a and attn_q_b in its place",
			l.prefix+"attn_q.weight"))
	}
	queries := l.Matrix("indexer.attn_q_b.weight", l.Config.Latent.QueryRank, n.NHead*n.Dim)
	keys := l.Matrix("indexer.attn_k.weight", l.Config.NEmbd, n.Dim)
	weigh := l.Matrix("indexer.proj.weight", l.Config.NEmbd, n.NHead)
	return index{in: []kernel.Matrix{keys, weigh}, low: []kernel.Matrix{queries},
		choose: func(act, low kernel.Act) kernel.Buf {
			qk := l.Floats("index", kernel.TokRows, (n.NHead+1)*n.Dim)
			weights := l.Floats("index.weights", kernel.TokRows, n.NHead)
			key := n.NHead * n.Dim // where it begins
			l.Add(kernel.Matmul{Dst: qk, Act: l.Only(act, keys), Parts: []kernel.Part{{Matrix: keys, Col: key}}})
			l.Add(kernel.Matmul{Dst: weights, Act: l.Only(act, weigh), Parts: []kernel.Part{{Matrix: weigh}}})
			l.Add(kernel.Matmul{Dst: qk, Act: l.Only(low, queries), Parts: []kernel.Part{{Matrix: queries}}})
			l.Add(kernel.NormRows{
				Dst: qk, Src: qk, DstCol: key, SrcCol: key, Cols: n.Dim, Segs: 1, Kind: kernel.LayerNorm, Eps: n.Eps,
				Scale:  1,
				Weight: l.Vector("indexer.k_norm.weight", n.Dim), Bias: l.Vector("indexer.k_norm.bias", n.Dim),
			})
			if len(l.tiers) > 0 {
				check(fmt.Errorf("%s chooses positions out of all: its keys and values cannot be in tiers",
					l.Config.Arch))
			}
			group, offset := l.state(kernel.Group{Name: "attention", Bytes: kernel.KVBytes(l.kv, 1, n.Dim, 0)})
			heads := kernel.Heads{
				NHead: n.NHead, NHeadKV: 1, HeadDim: n.Dim, ValueDim: n.Dim, InKeys: true, KV: l.kv, QKV: qk,
				Col: [3]int{0, key}, Group: group, KVOffset: offset,
			}
			l.Add(kernel.StoreKV{
				Heads: heads, Rope: n.Rope, RopeAt: n.RopeAt, NRot: l.Rope.NRot, Table: l.ropeTable(l.Rope),
				Eps: l.Config.Eps, Scale: 1,
			})
			l.Add(kernel.Select{Heads: heads, Dst: l.chosen(), Weights: weights, N: n.TopK})
			return l.chosen()
		}}
}

// chosen is the buffer of the selected positions.
func (l Layer) chosen() kernel.Buf {
	return l.Floats("chosen", kernel.TokRows, l.Config.Latent.Index.TopK)
}

// Indexer reads the sizes of indexers, which all layers have.
func (k *Keys) Indexer(style kernel.Rope) {
	n := &k.Config.Latent
	n.Index = Index{
		NHead: k.Int("attention.indexer.head_count", 1, MaxHead),
		Dim:   k.Int("attention.indexer.key_length", 1, MaxHeadDim),
		TopK:  k.Int("attention.indexer.top_k", 1, maxChosen),
		Rope:  style,
		Eps:   indexEps,
	}
	if n.Index.Dim%kernel.Panel != 0 || n.Index.Dim < n.RopeDim {
		k.Fail("attention.indexer.key_length", "%d, want a multiple of %d, at least the %d that are rotated",
			n.Index.Dim, kernel.Panel, n.RopeDim)
	}
	if n.QueryRank == 0 {
		k.Fail("attention.q_lora_rank", "0, want 1 or more for the queries of the index")
	}
	for il := range k.Config.Layers {
		k.Config.Layers[il].Indexed = true
	}
}

// IndexerTypes reads which layers have an indexer of their own, if the file lists them.
func (k *Keys) IndexerTypes() {
	const types = "attention.indexer.types"
	layers := k.Config.Layers
	if !k.Has(types) {
		return
	}
	all, err := k.File.Bools(k.Name(types))
	k.Check(err)
	k.ForLayers(types, len(all))
	for il := range layers {
		layers[il].Indexed = all[il]
	}
	if len(all) > 0 && !all[0] {
		k.Fail(types, "false for layer 0, which has no layer before it")
	}
}
