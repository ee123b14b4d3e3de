package arch

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// An NGram is the sizes of what hashes of the last tokens look up for a layer. Of the zero value there are none.
type NGram struct {
	Layer        int
	Rows, Dim    int      // of the table
	Factors      []uint64 // of the tokens
	Sizes, First []uint64 // of each hash: how many rows it chooses from, and the first of them
	Stop         int32    // a token that those before it do not count behind
	Taps         int      // of the convolution, as many positions apart as tokens are hashed
}

const ngramTable = "per_layer_token_embd.weight"

// ngrams reads them.
func (k *keys) ngrams() {
	const layers, dim = "ple.layers", "embedding_length_per_layer_input"
	if !k.has(layers) {
		return
	}
	of := k.numbers(layers, 0, 2, uint64(len(k.c.Layers)-1))
	if len(of) == 0 {
		return
	}
	if len(of) != 1 {
		k.fail(layers, "more than one layer, supported is one")
	}
	n := &k.c.NGram
	tokens := k.int("ple.ngram_size", 2, kernel.MaxNGram)
	hashes := (tokens - 1) * k.int("ple.heads_per_ngram", 1, maxHead)
	*n = NGram{
		Layer:   int(of[0]),
		Dim:     k.int(dim, 1, maxEmbd),
		Factors: k.numbers("ple.layer_multipliers", tokens, tokens, math.MaxInt64),
		Sizes:   k.numbers("ple.head_vocab_sizes", hashes, hashes, math.MaxInt32),
		First:   k.numbers("ple.head_offsets", hashes, hashes, math.MaxInt32),
		Stop:    int32(k.int("ple.eos_token_id", 0, maxVocab)),
		Taps:    k.int("ple.conv_kernel", 2, maxTap),
	}
	if n.Dim*hashes != k.c.NEmbd {
		k.fail(dim, "%d of each of %d hashes, want the embedding length %d in all", n.Dim, hashes, k.c.NEmbd)
	}
	if (n.Taps-1)*tokens >= maxTap {
		k.fail("ple.conv_kernel", "%d taps, %d positions apart, reach further than %d", n.Taps, tokens, maxTap)
	}
	if t, ok := k.f.Tensor(ngramTable); ok && len(t.Dims) == 2 && t.Dims[1] <= math.MaxInt32 {
		n.Rows = int(t.Dims[1])
	}
	for i, size := range n.Sizes {
		if size == 0 || n.First[i]+size > uint64(n.Rows) {
			k.fail("ple.head_vocab_sizes", "%d rows from %d on, the table has %d", size, n.First[i], n.Rows)
		}
	}
}

// numbers returns an array of at least `least` numbers up to hi, without those from number `most` on.
func (k *keys) numbers(key string, least, most int, hi uint64) []uint64 {
	all, err := k.f.Ints(k.name(key))
	k.keep(err)
	if len(all) < least {
		k.fail(key, "%d elements, want %d", len(all), least)
	}
	made := make([]uint64, 0, most)
	for _, v := range all[:min(len(all), most)] {
		if v < 0 || uint64(v) > hi {
			k.fail(key, "%d, want 0 to %d", v, hi)
		}
		made = append(made, uint64(v))
	}
	return made
}

// ngrams adds to each stream, in the layer that has them, what the last tokens look up: a value, by how far a key
// agrees with the stream, and a convolution of that over positions.
func (l layer) ngrams() {
	c, n := l.cfg, l.cfg.NGram
	if len(n.Factors) == 0 || l.il != n.Layer {
		return
	}
	streams := c.Hyper.Streams
	width := streams * c.NEmbd
	table := l.builder.table(ngramTable, n.Dim, n.Rows)
	key, value := l.matrix("ple_key.weight", c.NEmbd, width), l.matrix("ple_value.weight", c.NEmbd, c.NEmbd)
	found, act := l.floats("ngram", kernel.TokRows, c.NEmbd), l.act("embd", kernel.TokRows, c.NEmbd, key, value)
	keys, gated := l.floats("streams.normed", kernel.TokRows, width), l.floats("streams.gates", kernel.TokRows, width)
	by := l.floats("connect", kernel.TokRows, kernel.ConnectWidth(streams))
	made := l.floats("ngram.conv", kernel.TokRows, width)

	group, offset := l.state(recurrent(kernel.NGramBytes(len(n.Factors))))
	l.add(kernel.NGram{
		Dst: found, Table: table, Factors: n.Factors, Sizes: n.Sizes, First: n.First, Stop: n.Stop, Group: group, Offset: offset,
	})
	l.add(kernel.ToAct{Act: act, Src: found, Cols: c.NEmbd})
	l.add(kernel.Matmul{Dst: keys, Act: l.only(act, key), Parts: []kernel.Part{{Matrix: key}}})
	l.add(kernel.Matmul{Dst: l.sublayerOut(), Act: l.only(act, value), Parts: []kernel.Part{{Matrix: value}}})
	l.normStreams(keys, keys, l.blk+"ple_norm_key")
	l.normStreams(gated, l.connected(), l.blk+"ple_norm_query")
	l.add(kernel.Agree{Dst: by, Src: keys, With: gated, Cols: c.NEmbd, Segs: streams, Scale: float32(1 / math.Sqrt(float64(c.NEmbd)))})
	l.add(kernel.Mix{Dst: gated, Src: l.sublayerOut(), Weights: by, Cols: c.NEmbd, Segs: streams, SrcSegs: 1, Store: true})
	l.normStreams(keys, gated, l.blk+"ple_norm_conv")

	reach := (n.Taps-1)*len(n.Factors) + 1
	group, offset = l.state(recurrent(kernel.ConvBytes(width, reach)))
	l.add(kernel.Conv{
		Dst: made, Src: keys, Cols: width, Taps: reach, Group: group, Offset: offset, Epilogue: kernel.Apply, Fn: kernel.SiLU,
		Weight: l.apart("ple_conv1d.weight", n.Taps, width, len(n.Factors)),
	})
	for _, add := range []kernel.Buf{gated, made} {
		l.add(kernel.NormRows{Dst: l.connected(), Src: add, Cols: width, Segs: 1, Kind: kernel.NoNorm, Scale: 1, Epilogue: kernel.Add})
	}
}

// apart returns the weights of a convolution whose taps are the given number of positions apart.
func (l layer) apart(name string, taps, cols, positions int) []float32 {
	reach := (taps-1)*positions + 1
	of, all := l.vector(name, taps, cols), l.made(name+" apart", cols*reach)
	if of != nil && all != nil { // else there is no memory yet
		for i, w := range of[:cols*taps] {
			all[i/taps*reach+i%taps*positions] = w
		}
	}
	return all
}
