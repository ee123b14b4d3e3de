package nn

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// An NGram is the sizes of a table that a layer looks hashes of the last tokens up in. The zero value: none.
type NGram struct {
	Layer        int
	Rows, Dim    int      // of the table
	Factors      []uint64 // of the tokens
	Sizes, First []uint64 // of each hash: how many rows it chooses from, and the first of them
	Stop         int32    // a token that those before it do not count behind
	Taps         int      // of the convolution, as many positions apart as tokens are hashed
}

const ngramTable = "per_layer_token_embd.weight"

// NGrams reads the sizes of the table of n-grams.
func (k *Keys) NGrams() {
	const layers, dim = "ple.layers", "embedding_length_per_layer_input"
	if !k.Has(layers) {
		return
	}
	of := k.numbers(layers, 0, 2, uint64(len(k.Config.Layers)-1))
	if len(of) == 0 {
		return
	}
	if len(of) != 1 {
		k.Fail(layers, "more than one layer, supported is one")
	}
	n := &k.Config.NGram
	tokens := k.Int("ple.ngram_size", 2, kernel.MaxNGram)
	hashes := (tokens - 1) * k.Int("ple.heads_per_ngram", 1, MaxHead)
	*n = NGram{
		Layer:   int(of[0]),
		Dim:     k.Int(dim, 1, MaxEmbd),
		Factors: k.numbers("ple.layer_multipliers", tokens, tokens, math.MaxInt64),
		Sizes:   k.numbers("ple.head_vocab_sizes", hashes, hashes, math.MaxInt32),
		First:   k.numbers("ple.head_offsets", hashes, hashes, math.MaxInt32),
		Stop:    int32(k.Int("ple.eos_token_id", 0, MaxVocab)),
		Taps:    k.Int("ple.conv_kernel", 2, MaxTap),
	}
	if n.Dim*hashes != k.Config.NEmbd {
		k.Fail(dim, "%d of each of %d hashes, want the embedding length %d in all", n.Dim, hashes, k.Config.NEmbd)
	}
	if (n.Taps-1)*tokens >= MaxTap {
		k.Fail("ple.conv_kernel", "%d taps, %d positions apart, reach further than %d", n.Taps, tokens, MaxTap)
	}
	if t, ok := k.File.Tensor(ngramTable); ok && len(t.Dims) == 2 && t.Dims[1] <= math.MaxInt32 {
		n.Rows = int(t.Dims[1])
	}
	for i, size := range n.Sizes {
		if size == 0 || n.First[i]+size > uint64(n.Rows) {
			k.Fail("ple.head_vocab_sizes", "%d rows from %d on, the table has %d", size, n.First[i], n.Rows)
		}
	}
}

// numbers returns the first `most` elements of an array, which must have at least `least`, each from 0 to hi.
func (k *Keys) numbers(key string, least, most int, hi uint64) []uint64 {
	all, err := k.File.Ints(k.Name(key))
	k.Check(err)
	if len(all) < least {
		k.Fail(key, "%d elements, want %d", len(all), least)
	}
	made := make([]uint64, 0, most)
	for _, v := range all[:min(len(all), most)] {
		if v < 0 || uint64(v) > hi {
			k.Fail(key, "%d, want 0 to %d", v, hi)
		}
		made = append(made, uint64(v))
	}
	return made
}

// NGrams adds to each stream, in the layer with the table, a value of the looked-up rows, weighted by how well a key
// agrees with the stream, and a convolution of that over positions.
func (l Layer) NGrams() {
	c, n := l.Config, l.Config.NGram
	if len(n.Factors) == 0 || l.Index != n.Layer {
		return
	}
	streams := c.Hyper.Streams
	width := streams * c.NEmbd
	table := l.Builder.Table(ngramTable, n.Dim, n.Rows)
	key, value := l.Matrix("ple_key.weight", c.NEmbd, width), l.Matrix("ple_value.weight", c.NEmbd, c.NEmbd)
	found, act := l.Floats("ngram", kernel.TokRows, c.NEmbd), l.Act("embd", kernel.TokRows, c.NEmbd, key, value)
	keys, gated := l.Floats("streams.normed", kernel.TokRows, width), l.Floats("streams.gates", kernel.TokRows, width)
	by := l.Floats("connect", kernel.TokRows, kernel.ConnectWidth(streams))
	made := l.Floats("ngram.conv", kernel.TokRows, width)

	group, offset := l.state(recurrent(kernel.NGramBytes(len(n.Factors))))
	l.Add(kernel.NGram{
		Dst: found, Table: table, Factors: n.Factors, Sizes: n.Sizes, First: n.First, Stop: n.Stop, Group: group,
		Offset: offset,
	})
	l.Add(kernel.ToAct{Act: act, Src: found, Cols: c.NEmbd})
	l.Add(kernel.Matmul{Dst: keys, Act: l.Only(act, key), Parts: []kernel.Part{{Matrix: key}}})
	l.Add(kernel.Matmul{Dst: l.sublayerOut(), Act: l.Only(act, value), Parts: []kernel.Part{{Matrix: value}}})
	l.normStreams(keys, keys, l.prefix+"ple_norm_key")
	l.normStreams(gated, l.connected(), l.prefix+"ple_norm_query")
	l.Add(kernel.Agree{
		Dst: by, Src: keys, With: gated, Cols: c.NEmbd, Segs: streams,
		Scale: float32(1 / math.Sqrt(float64(c.NEmbd))),
	})
	l.Add(kernel.Mix{
		Dst: gated, Src: l.sublayerOut(), Weights: by, Cols: c.NEmbd, Segs: streams, SrcSegs: 1, Store: true,
	})
	l.normStreams(keys, gated, l.prefix+"ple_norm_conv")

	reach := (n.Taps-1)*len(n.Factors) + 1
	group, offset = l.state(recurrent(kernel.ConvBytes(width, reach)))
	l.Add(kernel.Conv{
		Dst: made, Src: keys, Cols: width, Taps: reach, Group: group, Offset: offset, Epilogue: kernel.Apply,
		Fn:     kernel.SiLU,
		Weight: l.apart("ple_conv1d.weight", n.Taps, width, len(n.Factors)),
	})
	for _, add := range []kernel.Buf{gated, made} {
		l.Add(kernel.NormRows{
			Dst: l.connected(), Src: add, Cols: width, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
			Epilogue: kernel.Add,
		})
	}
}

// apart returns the weights of a dilated convolution: its taps are the given number of positions apart.
func (l Layer) apart(name string, taps, cols, positions int) []float32 {
	reach := (taps-1)*positions + 1
	of, all := l.Vector(name, taps, cols), l.made(name+" apart", cols*reach)
	if of != nil && all != nil { // else there is no memory yet
		for i, w := range of[:cols*taps] {
			all[i/taps*reach+i%taps*positions] = w
		}
	}
	return all
}
