package nn

import (
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
)

// Layers of conformers (Gulati et al. 2020): between two feed-forwards, of which a half is added each, attention and a
// convolution over tokens. Products may be within limits, each of its own: see ClippedResidual.

// HalfStep is x += 1/2 down(SiLU(up(norm(x)))), by the tensors ffn_norm, ffn_up and ffn_down, and a norm ffn_post_norm where
// the file has it; behind each name stands suffix.
func (l Layer) HalfStep(suffix string) {
	n := l.channels(l.prefix + "ffn_up" + suffix) // keys of some files have another number
	up := kernel.Part{Matrix: l.Matrix("ffn_up"+suffix+".weight", l.Config.NEmbd, n), Bias: l.optional("ffn_up"+suffix+".bias", n)}
	l.Normed(l.normed(), l.X(), kernel.TokRows, "ffn_norm"+suffix)
	wide := l.Floats("ffn", kernel.TokRows, n)
	l.clipped(wide, l.normed(), l.Config.NEmbd, up, "ffn_up"+suffix)
	l.Add(kernel.Gate{Dst: wide, Src: wide, Cols: n, Fn: kernel.Sigmoid}) // x times its sigmoid
	l.clippedSum(wide, n, "ffn_down"+suffix, "ffn_post_norm"+suffix, 0.5)
}

// clippedSum adds a number of times a product, of n columns, to the residual, after a norm if the file has it.
func (l Layer) clippedSum(src kernel.Buf, n int, name, post string, times float32) {
	c := l.Config
	part := kernel.Part{Matrix: l.Matrix(name+".weight", n, c.NEmbd), Bias: l.optional(name+".bias", c.NEmbd)}
	l.clipped(l.sublayerOut(), src, n, part, name)
	op := kernel.NormRows{
		Dst: l.X(), Src: l.sublayerOut(), Cols: c.NEmbd, Segs: 1, Kind: kernel.NoNorm, Eps: c.Eps, Scale: times, Epilogue: kernel.Add,
	}
	if l.Has(post + ".weight") {
		op.Kind, op.Weight, op.Bias = c.Norm, l.Vector(post+".weight", c.NEmbd), l.optional(post+".bias", c.NEmbd)
	}
	l.Add(op)
}

// A ConvModule is the convolution of a conformer's layer.
type ConvModule struct {
	Norm  string // before it
	Inner string // the norm behind the convolution
	Ahead int    // how many of its taps are of tokens behind the own one; -1: half of those beside it
	// Batch has the inner norm be one of a batch, of which files have the mean and the variance, or what these make of its
	// weights; else it is the model's own
	Batch bool
}

// Convolve is x += pw2(SiLU(norm(dw(GLU(pw1(norm(x))))))): conv_pw1, conv_dw, which has taps of each channel, and conv_pw2. There
// are as many channels as conv_pw1 has pairs of rows.
func (l Layer) Convolve(m ConvModule) {
	width := l.Config.NEmbd
	n := l.channels(l.prefix+"conv_pw1") / 2
	if n%kernel.Panel != 0 || n == 0 {
		check(fmt.Errorf("tensor %q: %d channels, want a multiple of %d", l.prefix+"conv_pw1.weight", n, kernel.Panel))
	}
	first := kernel.Part{Matrix: l.Matrix("conv_pw1.weight", width, 2*n), Bias: l.optional("conv_pw1.bias", 2*n)}
	l.Normed(l.normed(), l.X(), kernel.TokRows, m.Norm)
	both := l.Floats("conv gate", kernel.TokRows, 2*n)
	l.clipped(both, l.normed(), width, first, "conv_pw1")
	before, after := l.whole("conv in", n), l.whole("conv out", n)
	l.Add(kernel.Gate{Dst: both, Src: both, SrcCol: n, Cols: n, Fn: kernel.Sigmoid})
	l.Add(kernel.NormRows{Dst: before, Src: both, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1})
	l.cut()
	l.depthwise(after, before, n, m.Ahead)
	l.cuts = append(l.cuts, Cut{At: len(l.ops), Once: true})
	l.inmost(after, n, m)
	l.Add(kernel.Gate{Dst: after, Src: after, Cols: n, Fn: kernel.Sigmoid})
	l.clippedSum(after, n, "conv_pw2", "", 1)
}

// maxConvTaps bounds the taps of a convolution over tokens.
const maxConvTaps = 63

// depthwise is the convolution over tokens of n channels, `ahead` of whose taps are of tokens behind the own one.
func (l Layer) depthwise(dst, src kernel.Buf, n, ahead int) {
	const name = "conv_dw.weight"
	taps := l.weights.Columns(l.prefix + name)
	if ahead < 0 {
		ahead = (taps - 1) / 2
	}
	if taps < 1 || taps > maxConvTaps || ahead >= taps {
		check(fmt.Errorf("tensor %q: rows of %d taps, want %d to %d", l.prefix+name, taps, ahead+1, maxConvTaps))
	}
	w, behind := l.Vector(name, taps, n), max(1-ahead, 0) // of no weight: what sees nothing ahead has a state that goes on
	if taps+behind < 2 {
		behind = 1
	}
	all := taps + behind
	l.Add(kernel.Conv{
		Dst: dst, Src: src, Cols: n, Taps: all, Ahead: ahead + behind, Bias: l.optional("conv_dw.bias", n),
		Weight: l.constants("taps of conv_dw", n*all, func(i int) float64 {
			if i%all >= taps {
				return 0
			}
			return float64(w[i/all*taps+i%all])
		}),
	})
}

// inmost is the norm behind the convolution.
func (l Layer) inmost(x kernel.Buf, n int, m ConvModule) {
	c := l.Config
	op := kernel.NormRows{Dst: x, Src: x, Cols: n, Segs: 1, Kind: c.Norm, Eps: c.Eps, Scale: 1}
	if m.Batch {
		op.Kind = kernel.NoNorm
	}
	if !m.Batch && !l.Has(m.Inner+".weight") {
		return
	}
	op.Weight, op.Bias = l.Vector(m.Inner+".weight", n), l.optional(m.Inner+".bias", n)
	if m.Batch && l.Has(m.Inner+"_mean") {
		const eps = 1e-5 // of torch's BatchNorm1d
		w, bias, mean, variance := op.Weight, op.Bias, l.Vector(m.Inner+"_mean", n), l.Vector(m.Inner+"_var", n)
		by := func(i int) float64 { return float64(w[i]) / math.Sqrt(float64(variance[i])+eps) }
		op.Weight = l.constants(m.Inner+" over deviations", n, by)
		op.Bias = l.constants(m.Inner+" from means", n, func(i int) float64 {
			b := -float64(float64(mean[i]) * by(i))
			if bias != nil {
				b += float64(bias[i])
			}
			return b
		})
	}
	l.Add(op)
}

// A Relative says how far and by what distances tokens see in RelativeAttention.
type Relative struct {
	Matrix string      // that the embedding of a distance is multiplied by
	Freqs  []float64   // of its cosines and sines
	Parts  [][]float32 // what it has times the cosine of each frequency, and then what it has times the negative of the sine
	Past   int         // tokens up to its own that one sees; 0: all of the sound
	Spans  bool        // one sees those of its window (Input.Windows)
	Query  float32     // what queries are multiplied by, beside per_dim_scale, where the file has it
	Key    float32     // the same of keys, with per_dim_k_scale
}

// RelativeAttention is attention whose scores are, beside the product of query and key, that of the query with the embedding of
// their distance, times a matrix (Dai et al. 2019, "Transformer-XL"), before the model's soft cap. With w the frequencies, and a
// and b the products of the query with what the embedding has times its cosines and sines, that is the sum of a cos(w(i-j)) + b
// sin(w(i-j)): the product of (a, -b), turned by the position i of the query, with (1, 0), turned by that of the key. So queries
// and keys have these as further dimensions, which are rotated. pos_bias_u and pos_bias_v, where the file has them, are added to
// the queries of the first product and of the second.
func (l Layer) RelativeAttention(norm string, r Relative, out, post string) {
	heads, d := l.NHead, l.HeadDim
	if d%kernel.Panel != 0 {
		check(fmt.Errorf("key %q: heads of %d dimensions, want a multiple of %d", l.Config.Arch+".attention.head_count", d, kernel.Panel))
	}
	turned := len(r.Parts) // rows of whole panels: products of heads are so
	width := d + turned
	q := l.queries(Attention{})
	l.Normed(l.normed(), l.X(), kernel.TokRows, norm)
	l.clippedQueries(q)
	wide := projection{buf: l.Floats("wide", kernel.TokRows, heads*(2*width+d)), col: [3]int{0, heads * width, 2 * heads * width}}
	for h := range heads {
		for i, of := range []struct {
			by         float32
			name, bias string
		}{{r.Query, "per_dim_scale.weight", "pos_bias_u"}, {r.Key, "per_dim_k_scale.weight", ""}} {
			op := kernel.NormRows{
				Dst: wide.buf, Src: q.buf, DstCol: wide.col[i] + h*width, SrcCol: q.col[i] + h*d, Cols: d, Segs: 1, Kind: kernel.NoNorm,
				Scale: of.by, Weight: l.optional(of.name, d),
			}
			if of.bias != "" && l.Has(of.bias) {
				if all := l.Vector(of.bias, d, heads); all != nil { // there is memory
					op.Bias = all[h*d:]
				}
			}
			l.Add(op)
		}
		l.halfOnes(wide.buf, wide.col[1]+h*width+d, wide.buf, wide.col[1]+h*width, turned) // (1, 0) of each frequency
	}
	l.Add(kernel.NormRows{
		Dst: wide.buf, Src: q.buf, DstCol: wide.col[2], SrcCol: q.col[2], Cols: heads * d, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
	})
	l.positions(r, q, wide, width)
	l.attendTurned(r, wide, width, out, post)
}

// positions adds the products of queries with what embeddings of distances have, behind each head's own dimensions.
func (l Layer) positions(r Relative, q, wide projection, width int) {
	heads, d := l.NHead, l.HeadDim
	m := must(l.weights.Against(l.prefix+r.Matrix, l.Config.NEmbd, d, heads, r.Parts))
	by := l.Floats("queries of distances", kernel.TokRows, heads*d)
	op := kernel.NormRows{
		Dst: by, Src: q.buf, SrcCol: q.col[0], Cols: d, Segs: heads, Kind: kernel.NoNorm, Scale: r.Query,
		Weight: l.optional("per_dim_scale.weight", d),
	}
	if l.Has("pos_bias_v") {
		op.Cols, op.Segs, op.Bias = heads*d, 1, l.Vector("pos_bias_v", d, heads)
	}
	act := l.headAct(d, m)
	l.Add(op)
	l.Add(kernel.ToAct{Act: act, Src: by, Rows: kernel.HeadRows, Cols: d, Heads: kernel.Spread{N: heads, Step: d}})
	l.Add(kernel.Matmul{
		Dst: wide.buf, Act: act, Rows: kernel.HeadRows, Parts: []kernel.Part{{Matrix: m, Col: d}}, Heads: kernel.Spread{N: heads, Step: width},
	})
}

// attendTurned is attention with queries and keys whose last dimensions are rotated, and its product.
func (l Layer) attendTurned(r Relative, wide projection, width int, out, post string) {
	own := l
	own.HeadDim = width
	kv := own.cache(Attention{}, wide)
	heads := kernel.Heads{
		NHead: l.NHead, NHeadKV: l.NHead, HeadDim: width, ValueDim: l.HeadDim, KV: l.kv, QKV: wide.buf, Col: wide.col,
		Group: kv.group, KVOffset: kv.offset,
	}
	l.Add(kernel.StoreKV{
		Heads: heads, Rope: kernel.RopeNeox, RopeAt: l.HeadDim, NRot: width - l.HeadDim, Table: l.turns(r.Freqs), Scale: 1,
	})
	heads.QKV, heads.Col[0] = own.keepQueries(wide), 0
	n := l.NHead * l.HeadDim
	att := l.Floats("att", kernel.TokRows, n)
	attend := kernel.Attend{Heads: heads, Dst: att, Softcap: l.Config.AttnCap, Window: r.Past}
	switch {
	case r.Spans:
		attend.Sight = kernel.OnlySpan
	case r.Past == 0:
		attend.Side = kernel.SourceSide
	}
	l.Add(attend)
	l.clippedSum(att, n, out, post, 1)
}

// turns returns the buffer with the rotations of tokens by frequencies.
func (b *Builder) turns(freqs []float64) kernel.Buf { return b.whole("turns", 2*len(freqs)) }

// Turn computes the rotations of RelativeAttention, which all layers share. It is before BegunRows.
func (b *Builder) Turn(freqs []float64) {
	b.Add(kernel.RopeTable{Dst: b.turns(freqs), NRot: 2 * len(freqs), Freqs: freqs, Scale: 1})
}

// SeesLast returns how tokens see the last n by embeddings of their distances, which are given: any function of n distances is a
// sum of the cosines and sines of as many frequencies as there are.
func SeesLast(n int, embedding func(distance int) []float32) (r Relative) {
	pairs := kernel.Pad(n+1) / 2
	period := 2*pairs - 1 // an odd number of points, n at least
	width := len(embedding(0))
	var cosines, sines [][]float32
	for p := range pairs {
		w := 2 * math.Pi * float64(p) / float64(period)
		r.Freqs = append(r.Freqs, w)
		cosine, sine := make([]float64, width), make([]float64, width)
		share := 2 / float64(period)
		if p == 0 {
			share /= 2
		}
		for i := range n {
			for f, v := range embedding(i) {
				cosine[f] += float64(share * exactmath.Cos(w*float64(i)) * float64(v))
				sine[f] -= float64(share * exactmath.Sin(w*float64(i)) * float64(v))
			}
		}
		cosines, sines = append(cosines, floats(cosine)), append(sines, floats(sine))
	}
	r.Past, r.Parts = n, append(cosines, sines...)
	return r
}

// SeesAll returns how tokens see all of a sound by embeddings of so many numbers, the sine and the cosine of each frequency in
// turn.
func SeesAll(width int) (r Relative) {
	if width%kernel.Panel != 0 {
		check(fmt.Errorf("embeddings of distances of %d numbers, want a multiple of %d", width, kernel.Panel))
	}
	r.Parts = make([][]float32, width)
	for f := range width / 2 {
		r.Freqs = append(r.Freqs, exactmath.Pow(10000, -2*float64(f)/float64(width)))
		cosine, sine := make([]float32, width), make([]float32, width)
		cosine[2*f+1], sine[2*f] = 1, -1
		r.Parts[f], r.Parts[width/2+f] = cosine, sine
	}
	return r
}

func floats(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// ShawAttention is attention within windows, whose scores are, beside the product of query and key, that of the query with the
// embedding of their distance, attn_rel_pos_emb, which all heads share (Shaw et al. 2018). Windows have `window` tokens at most.
func (l Layer) ShawAttention(norm string, window int, out string) {
	const name = "attn_rel_pos_emb"
	heads, d := l.NHead, l.HeadDim
	q := l.queries(Attention{})
	rows := l.weights.Rows(l.prefix + name)
	if rows%2 == 0 || rows/2 < window-1 {
		check(fmt.Errorf("tensor %q: %d rows, want one for each distance in %d tokens", l.prefix+name, rows, window))
	}
	n := 2*window - 1
	m := must(l.weights.Repeated(l.prefix+name, d, rows, rows/2-(window-1), n, heads))
	l.Normed(l.normed(), l.X(), kernel.TokRows, norm)
	l.clippedQueries(q)
	r := kernel.Relative{ByQuery: l.whole("scores by distance", heads*m.Out), ByKey: kernel.NoBuf, N: m.Out, Step: m.Out}
	for i := range n {
		r.At = append(r.At, int32(i))
	}
	act := l.headAct(d, m)
	l.Add(kernel.ToAct{
		Act: act, Src: q.buf, Rows: kernel.HeadRows, Cols: d, SrcCol: q.col[0], Heads: kernel.Spread{N: heads, Step: d},
	})
	l.Add(kernel.Matmul{
		Dst: r.ByQuery, Act: act, Rows: kernel.HeadRows, Parts: []kernel.Part{{Matrix: m}}, Scale: l.AttnScale,
		Heads: kernel.Spread{N: heads, Step: r.Step},
	})
	att := l.attendRows(q, l.AttnScale, kernel.Attend{Relative: r, Sight: kernel.OnlySpan})
	l.clippedSum(att, heads*d, out, "", 1)
}

// attendRows keeps what is attended to, ends the part of the layer, and returns the results of attention.
func (l Layer) attendRows(q projection, scale float32, attend kernel.Attend) kernel.Buf {
	kv := l.cache(Attention{}, q)
	heads := kernel.Heads{
		NHead: l.NHead, NHeadKV: l.NHead, HeadDim: l.HeadDim, ValueDim: l.ValueDim, KV: l.kv, QKV: q.buf, Col: q.col,
		Group: kv.group, KVOffset: kv.offset,
	}
	l.Add(kernel.StoreKV{Heads: heads, Scale: scale})
	heads.QKV, heads.Col[0] = l.keepQueries(q), 0
	att := l.Floats("att", kernel.TokRows, l.NHead*l.ValueDim)
	attend.Heads, attend.Dst = heads, att
	l.Add(attend)
	return att
}

// Classes is x += a sum of rows weighted by the softmax of the products of x with as many others, plus biases: tokens before the
// first that something is made of bring both (Input.First), behind x: a row with the bias behind it, and the row that is summed.
// bias is the name of what is added.
func (l Layer) Classes(bias string) {
	n, wide := l.Config.NEmbd, l.Config.NEmbd+kernel.Panel
	l.NHead, l.NHeadKV, l.HeadDim, l.ValueDim = 1, 1, wide, n
	q := projection{buf: l.whole("classes", 2*wide+n), col: [3]int{0, wide, 2 * wide}}
	l.Add(kernel.NormRows{Dst: q.buf, Src: l.X(), Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1})
	l.one(q.buf, n, 1)
	att := l.attendRows(q, 1, kernel.Attend{Side: kernel.SourceSide})
	l.Add(kernel.NormRows{
		Dst: l.X(), Src: att, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1, Epilogue: kernel.Add, Bias: l.Vector(bias, n),
	})
}

// BringClasses has tokens bring x and what Classes reads of them.
func (b *Builder) BringClasses() {
	n := b.Config.NEmbd
	wide := n + kernel.Panel
	b.BroughtAlone()
	b.Add(kernel.Input{Dst: b.whole("classes", 2*wide+n), DstCol: wide, From: n, Cols: wide + n, Clear: true})
}

// one writes a panel of a number and zeros.
func (b *Builder) one(dst kernel.Buf, col int, v float64) {
	b.Add(kernel.NormRows{
		Dst: dst, DstCol: col, Src: b.X(), Cols: kernel.Panel, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
		Weight: b.constants("a panel of zeros", kernel.Panel, func(int) float64 { return 0 }),
		Bias: b.constants(fmt.Sprintf("%g and zeros", v), kernel.Panel, func(i int) float64 {
			if i == 0 {
				return v
			}
			return 0
		}),
	})
}
