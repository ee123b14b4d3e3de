package nn

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
)

// What encoders are made of: models that read a text in both directions and make vectors of it.

// Pooling says how the vector of a text is computed from those of its tokens.
type Pooling int

// The numbers are those of GGUF, but for PoolUnset and those that GGUF lacks.
const (
	PoolUnset Pooling = -1
	PoolNone  Pooling = 0 // every token has its own
	PoolMean  Pooling = 1
	PoolCLS   Pooling = 2 // the first token's
	PoolLast  Pooling = 3
	PoolRank  Pooling = 4 // a classifier's scores
)

const (
	PoolMax      Pooling = 100 + iota // the greatest number of each channel
	PoolMeanSqrt                      // the sum, divided by the root of the number of tokens
	PoolWeighted                      // the mean, where the i-th token counts i times
	PoolTokens                        // a classifier's scores of every token
	PoolTerms                         // a number for each token of the vocabulary, the greatest of the text's (SPLADE)
	PoolTermSum                       // the same, their sum
)

// Sparse reports whether a vector has a number for each token of the vocabulary, most of which are 0, as SPLADE's (Formal
// et al. 2021): the logarithm of 1 and what is positive of the scores that a classifier gives it at a position.
func (p Pooling) Sparse() bool { return p == PoolTerms || p == PoolTermSum }

// TextPooling returns the pooling with which the model's vectors of texts are served: the file's, else the mean where tokens read
// those behind them, and the last token elsewhere.
func (c *Config) TextPooling() Pooling {
	switch {
	case c.Pooling != PoolUnset && c.Pooling != PoolNone:
		return c.Pooling
	case c.BothWays:
		return PoolMean
	}
	return PoolLast
}

// spladeActivation is the key of what is made of these scores: relu, or log1p_relu for one more logarithm.
const spladeActivation = Own + "splade.activation"

// poolingKey is the key of poolings that GGUF has no number for.
const poolingKey = Own + "pooling"

var ownPoolings = map[string]Pooling{"max": PoolMax, "mean_sqrt_len": PoolMeanSqrt, "weightedmean": PoolWeighted,
	"splade_max": PoolTerms, "splade_sum": PoolTermSum}

// pooling reads the pooling of a file.
func (k *Keys) pooling() {
	if k.Has(poolingKey) {
		k.Config.Pooling = ownPoolings[k.oneOf(poolingKey, slices.Sorted(maps.Keys(ownPoolings))...)]
		return
	}
	k.Config.Pooling = Pooling(k.IntOr("pooling_type", int(PoolUnset), 0, int(PoolRank)))
}

// Encoder reads what encoders with layer norms have in common.
func (k *Keys) Encoder() {
	k.Config.BothWays = true
	k.LayerNorm()
	k.Heads()
	k.FeedForward()
	if t, ok := k.File.Tensor("token_types.weight"); ok && len(t.Dims) <= 2 {
		k.Config.NType = 1
		if len(t.Dims) == 2 {
			k.Config.NType = int(min(t.Dims[1], MaxVocab))
		}
	}
	k.NarrowEmbeddings()
}

// bertBegin adds the embeddings of BERT (Devlin et al. 2018): of tokens, of their types and of positions, and a norm. Where they are narrower than the layers, a product follows.
func (b *Builder) bertBegin() {
	if b.Has("token_embd_proj.weight") {
		b.narrowBegin()
		return
	}
	b.Begin(func() {
		b.bertEmbeddings(b.X(), b.Config.NEmbd)
		b.Normalise("token_embd_norm")
	})
}

// bertEmbeddings adds the embeddings of token types and positions to those of tokens. The second text of a pair has the
// second type, where there are two.
func (b *Builder) bertEmbeddings(dst kernel.Buf, width int) {
	c := b.Config
	if c.NType > 0 {
		by := kernel.First
		if c.NType > 1 {
			by = kernel.ByText
		}
		types := b.Table("token_types.weight", width, c.NType)
		b.Add(kernel.Embed{Dst: dst, Table: types, By: by, Add: true, Scale: 1})
	}
	if c.Positions {
		table := b.Table("position_embd.weight", width, c.NCtx)
		b.Add(kernel.Embed{Dst: dst, Table: table, By: kernel.ByPosition, Add: true, Scale: 1})
	}
}

// narrowBegin is bertBegin with embeddings of another width.
func (b *Builder) narrowBegin() {
	c := b.Config
	table := b.Table("token_embd.weight", c.NNarrow, c.NVocab)
	m := b.Matrix("token_embd_proj.weight", c.NNarrow, c.NEmbd)
	narrow, act := b.Floats("narrow", kernel.TokRows, c.NNarrow), b.Act("narrow", kernel.TokRows, c.NNarrow, m)
	b.Add(kernel.Embed{Dst: narrow, Table: table, Scale: 1})
	b.bertEmbeddings(narrow, c.NNarrow)
	b.Add(kernel.Norm{
		Act: act, Src: narrow, Cols: c.NNarrow, Kind: c.Norm, Eps: c.Eps,
		Weight: b.NormWeights("token_embd_norm", c.NNarrow), Bias: b.optional("token_embd_norm.bias", c.NNarrow),
	})
	b.Add(kernel.Matmul{Dst: b.X(), Act: act, Parts: []kernel.Part{
		{Matrix: m, Bias: b.optional("token_embd_proj.bias", c.NEmbd)}}})
	b.Program.Begin = b.Take()
}

// BERTLayers builds a model whose sublayers are followed by a norm of the residual (post-norm). ffn makes the
// feed-forward.
func (b *Builder) BERTLayers(a Attention, ffn func(l Layer) Sublayer) {
	b.bertBegin()
	b.Layers(func(l Layer) {
		beside := l.convolution()
		l.Residual("", l.Attention(a))
		l.Normalise("attn_output_norm")
		l.Residual("", ffn(l))
		l.Normalise("layer_output_norm")
		beside()
	})
	b.Vectors("")
}

// Convolution reads the convolution beside the first layer, if the file has one.
func (k *Keys) Convolution() {
	t, ok := k.File.Tensor(convolution)
	if !ok {
		return
	}
	c := k.Config
	if len(t.Dims) != 2 || !slices.Contains([]uint64{3, 5, 7}, t.Dims[0]/uint64(c.NEmbd)) ||
		t.Dims[0]%uint64(c.NEmbd) != 0 {
		k.Check(fmt.Errorf("tensor %q: shape %v, want %d columns for each of 3, 5 or 7 positions", t.Name, t.Dims,
			c.NEmbd))
	}
	c.ConvTaps, c.ConvFn = int(t.Dims[0])/c.NEmbd, "tanh"
	if key := Own + "conv.activation"; k.Has(key) {
		c.ConvFn = k.oneOf(key, slices.Concat([]string{"tanh"}, slices.Sorted(maps.Keys(activations)))...)
	}
}

const convolution = "conv.weight"

// convolution adds a product of the input of the first layer at each position and at those around it, and returns what adds
// it to the layer's result, before another norm (DeBERTa 2).
func (l Layer) convolution() (after func()) {
	n, taps := l.Config.NEmbd, l.Config.ConvTaps
	if l.Index > 0 || taps == 0 {
		return func() {}
	}
	m := l.Builder.Matrix(convolution, taps*n, n)
	around, made := l.Floats("around", kernel.TokRows, taps*n), l.Floats("convolution", kernel.TokRows, n)
	act := l.Act("around", kernel.TokRows, taps*n, m)
	l.Add(kernel.Conv{ // copies: result i is tap i alone
		Dst: around, Src: l.X(), Cols: n, Taps: taps, Results: taps, Ahead: taps / 2,
		Weight: l.constants("taps", taps*n*taps, func(i int) float64 {
			if i%taps == i/(n*taps) {
				return 1
			}
			return 0
		}),
	})
	l.Add(kernel.ToAct{Act: act, Src: around, Cols: taps * n})
	op := applied(l.Config.ConvFn)
	op.Dst, op.Act = made, act
	op.Parts = []kernel.Part{{Matrix: m, Bias: l.Builder.optional("conv.bias", n)}}
	l.Add(op)
	return func() {
		l.Add(kernel.NormRows{
			Dst: l.X(), Src: made, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1, Epilogue: kernel.Add,
		})
		l.Builder.Normalise("conv_norm")
	}
}

// bias returns the biases of scores by distance.
func (l Layer) bias() kernel.Bias {
	if l.byDistance != nil && !l.Has("attn_rel_b.weight") { // one table serves all layers, in most files too
		return *l.byDistance
	}
	l.byDistance = &kernel.Bias{}
	switch {
	case l.Config.ALiBi:
		slopes := make([]float64, l.NHead)
		for h := range slopes {
			slopes[h] = slope(h, l.NHead)
			if l.Config.ALiBiScaled {
				slopes[h] = bf16(slopes[h]) * float64(l.AttnScale)
			}
		}
		*l.byDistance = l.biases(l.TensorPrefix, l.Config.Ctx-1,
			func(h, i int) float32 { return float32(-slopes[h] * math.Abs(float64(i))) })
	case l.Config.NBucket > 0:
		table := l.Vector("attn_rel_b.weight", l.NHead, l.Config.NBucket)
		buckets := bucketsOf(l.Config.NBucket, l.role != inDecoder)
		*l.byDistance = l.biases(l.prefix, bucketSpan,
			func(h, i int) float32 { return table[buckets[i+bucketSpan]*l.NHead+h] })
	}
	return *l.byDistance
}

// biases returns the biases that by gives for each distance. Their name begins with stem.
func (l Layer) biases(stem string, span int, by func(head, i int) float32) kernel.Bias {
	width := kernel.BiasWidth(span)
	bias := kernel.Bias{Span: span, By: l.weights.Floats(stem+"biases by distance", l.NHead*width)}
	if bias.By == nil {
		return bias
	}
	for h := range l.NHead {
		row := bias.By[h*width:][:width]
		for at := range row {
			row[at] = by(h, min(max(at-kernel.BiasAt(span, 0), -span), span))
		}
	}
	return bias
}

// slope is that of a head with ALiBi (Press et al. 2022), of n heads: the powers of 2^(-8/n), and
// where n is no power of two, those of the power below, then every other one of that of the next.
func slope(h, n int) float64 {
	whole := 1 << (bits.Len(uint(n)) - 1)
	if h < whole {
		return exactmath.Pow(2, -8*float64(h+1)/float64(whole))
	}
	return exactmath.Pow(2, -4*float64(2*(h-whole)+1)/float64(whole))
}

// bf16 rounds a positive number to BF16's 8 bits.
func bf16(x float64) float64 {
	fraction, exponent := math.Frexp(x)
	return math.Ldexp(math.RoundToEven(math.Ldexp(fraction, 8)), exponent-8)
}

// bucketSpan is the distance from which on all keys are in the last bucket.
const bucketSpan = 128

// bucketsOf returns the buckets of T5 (Raffel et al. 2020) of keys -bucketSpan .. bucketSpan positions after a token, of n:
// where it sees both ways, half of them are of keys after it, and of each half, or of all, the first half has a distance
// each, and the others grow with its logarithm.
func bucketsOf(n int, bothWays bool) []int {
	half := n
	if bothWays {
		half = n / 2
	}
	exact := half / 2
	last := exactmath.Log(float64(bucketSpan) / float64(exact)) // which takes long, as each logarithm does
	all := make([]int, 2*bucketSpan+1)
	for far := range bucketSpan + 1 {
		at := far
		if far >= exact {
			grown := exactmath.Log(float64(far)/float64(exact)) / last * float64(half-exact)
			at = min(exact+int(grown+1e-6), half-1) // the logarithms of what falls on a border are rounded
		}
		all[bucketSpan-far] = at
		switch {
		case far == 0:
		case bothWays:
			all[bucketSpan+far] = half + at
		default:
			all[bucketSpan+far] = all[bucketSpan]
		}
	}
	return all
}

// maxDense is how many dense layers may follow the pooling.
const maxDense = 8

// denseActivations is the key of the functions of dense layers; without it there are none.
const denseActivations = Own + "dense.activations"

// dense reads the sizes of the dense layers after the pooling: dense_2, dense_3 and so on, as sentence-transformers
// numbers modules.
func (k *Keys) dense() {
	c := k.Config
	for len(c.Dense) < maxDense {
		t, ok := k.File.Tensor(fmt.Sprintf("dense_%d.weight", 2+len(c.Dense)))
		if !ok {
			break
		}
		if len(t.Dims) != 2 || t.Dims[1] == 0 || t.Dims[1] > MaxFF {
			k.Check(fmt.Errorf("tensor %q: shape %v, want two dimensions and at most %d rows", t.Name, t.Dims, MaxFF))
		}
		c.Dense = append(c.Dense, DenseConfig{Out: int(t.Dims[1]), Activation: "identity"})
	}
	if len(c.Dense) == 0 || !k.Has(denseActivations) {
		return
	}
	names, err := k.File.Strs(k.Name(denseActivations))
	k.Check(err)
	if len(names) != len(c.Dense) {
		k.Fail(denseActivations, "%d elements, want one for each of the %d dense layers", len(names), len(c.Dense))
	}
	for i, name := range names {
		if _, ok := activations[name]; !ok && name != "identity" && name != "tanh" {
			k.Fail(denseActivations, "%.40q is not supported, supported are identity tanh %s", name,
				strings.Join(slices.Sorted(maps.Keys(activations)), " "))
		}
		c.Dense[i].Activation = name
	}
}

// pooledDense adds the output Pooled, if there are dense layers after the pooling.
func (b *Builder) pooledDense() {
	c := b.Config
	if len(c.Dense) == 0 {
		return
	}
	in := b.Floats("given", kernel.OutRows, c.NEmbd)
	src, width := in, c.NEmbd
	for i, layer := range c.Dense {
		name := fmt.Sprintf("dense_%d", 2+i)
		m := b.Matrix(name+".weight", width, layer.Out)
		act, dst := b.Act(name, kernel.OutRows, width, m), b.Floats(name+" out", kernel.OutRows, layer.Out)
		b.Add(kernel.ToAct{Act: act, Src: src, Rows: kernel.OutRows, Cols: width})
		op := kernel.Matmul{}
		if layer.Activation != "identity" {
			op = applied(layer.Activation)
		}
		op.Dst, op.Act, op.Rows = dst, act, kernel.OutRows
		op.Parts = []kernel.Part{{Matrix: m, Bias: b.optional(name+".bias", layer.Out)}}
		b.Add(op)
		src, width = dst, layer.Out
	}
	b.Program.Outputs = append(b.Program.Outputs,
		Output{Name: Pooled, Ops: b.Take(), Given: true, In: in, Buf: src, Width: width})
}

// VectorWidth is how many numbers the vector of a text has.
func (c *Config) VectorWidth() int {
	if c.Pooling.Sparse() {
		return c.NVocab
	}
	if n := len(c.Dense); n > 0 {
		return c.Dense[n-1].Out
	}
	return c.NEmbd
}
