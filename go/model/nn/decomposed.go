package nn

import (
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
)

// Decomposed relative positions (Li et al. 2022, "MViTv2", as SAM has them): scores are, beside the product of query and key, those
// of the query with the embedding of how many rows they are apart, and with that of how many columns. Any function of 2n-1 distances
// is a sum of the cosines and sines of n frequencies, so queries and keys have these as further dimensions, which turn by the places
// of patches: see RelativeAttention.

// A Decomposed is the embeddings of distances of a layer.
type Decomposed struct {
	Rows   [2]string // the tensors of rows and of columns apart
	Of     int       // rows of each, from the most before a patch to the most behind it
	Side   int       // patches of a side, for 2 Side - 1 distances, which are the period
	Sets   []DistanceSet
	Masked bool // what is normalised is multiplied by Mask
}

// A DistanceSet is what the embeddings of distances are made of, where patches of a side are fewer: for each, from the most before to the
// most behind, how much of each row.
type DistanceSet struct {
	Name string
	By   [][]float64
}

// pairs returns how many rotated pairs there are for each axis: whole panels.
func (d Decomposed) pairs() int { return kernel.Pad(d.Side) }

// freq returns the frequency of pair p.
func (d Decomposed) freq(p int) float64 {
	if p >= d.Side {
		return 0
	}
	return 2 * math.Pi * float64(p) / float64(2*d.Side-1)
}

// waves returns what the sums of a set have of each row of the tensors, for each pair: times a wave of the distance.
func (d Decomposed) waves(s DistanceSet, wave func(x float64) float64) [][]float64 {
	n := len(s.By)
	all := make([][]float64, d.pairs())
	for p := range all {
		all[p] = make([]float64, d.Of)
		if p >= d.Side {
			continue
		}
		share := 2 / float64(2*d.Side-1)
		if p == 0 {
			share /= 2
		}
		for i, by := range s.By {
			f := float64(share * wave(float64(d.freq(p)*float64(i-n/2))))
			for j, v := range by {
				all[p][j] += float64(f * v)
			}
		}
	}
	return all
}

// TurnInPlane computes the rotations of DecomposedAttention, by the rows and the columns of patches.
func (b *Builder) TurnInPlane(d Decomposed) {
	n := d.pairs()
	op := kernel.RopeTable{NRot: 4 * n, Scale: 1}
	for i := range 2 * n {
		op.Freqs = append(op.Freqs, d.freq(i%n))
		op.Axes = append(op.Axes, [2]int32{Down, Across}[i/n])
	}
	op.Dst = b.turns(op.Freqs)
	b.Add(op)
}

// BringSets has tokens bring, from column `from` on, a panel for each of n sets, whose first number is 1 for the own one of a token,
// and 0 for others.
func (b *Builder) BringSets(from, n int) {
	b.Add(kernel.Input{Dst: b.sets(n), From: from, Cols: n * kernel.Panel, Clear: true})
}

func (b *Builder) sets(n int) kernel.Buf { return b.whole("sets of distances", n*kernel.Panel) }

// DecomposedAttention is attention within windows with embeddings of distances. qkv has the rows of queries, of keys and of values.
// Of several sets each token brings which is its own: see BringSets.
func (l Layer) DecomposedAttention(norm, qkv string, r Decomposed, out string) {
	c, heads, d := l.Config, l.NHead, l.HeadDim
	n, turned := heads*d, 4*r.pairs()
	if d%kernel.Panel != 0 || turned > 3*n {
		check(fmt.Errorf("%d heads of %d dimensions and %d patches a side, want a multiple of %d, and more than that of patches", heads, d,
			r.Side, kernel.Panel))
	}
	l.Normed(l.normed(), l.X(), kernel.TokRows, norm)
	if r.Masked {
		l.Add(kernel.Gate{Dst: l.normed(), Src: l.mask(), Cols: c.NEmbd, Fn: kernel.NoFn, ByRow: true})
	}
	plain := l.Floats("qkv", kernel.TokRows, 3*n)
	l.clipped(plain, l.normed(), c.NEmbd, kernel.Part{
		Matrix: l.Matrix(qkv+".weight", c.NEmbd, 3*n), Bias: l.optional(qkv+".bias", 3*n)}, qkv)
	width := d + turned
	wide := projection{buf: l.Floats("wide", kernel.TokRows, heads*(2*width+d)), col: [3]int{0, heads * width, 2 * heads * width}}
	copied := func(to, from, cols int, scale float32) {
		l.Add(kernel.NormRows{
			Dst: wide.buf, Src: plain, DstCol: to, SrcCol: from, Cols: cols, Segs: 1, Kind: kernel.NoNorm, Scale: scale,
		})
	}
	for h := range heads {
		copied(h*width, h*d, d, l.AttnScale)
		copied(wide.col[1]+h*width, n+h*d, d, 1)
		l.halfOnes(wide.buf, wide.col[1]+h*width+d, plain, 0, turned)
	}
	copied(wide.col[2], 2*n, n, 1)
	l.decomposed(r, plain, wide, width)
	l.attendTurned(Relative{Freqs: make([]float64, turned/2), Spans: true}, wide, width, out, "")
}

// halfOnes writes n columns, of which the first half is 1 and the other 0. src has n numbers from column `of` on, which it reads.
func (l Layer) halfOnes(dst kernel.Buf, col int, src kernel.Buf, of, n int) {
	l.Add(kernel.NormRows{
		Dst: dst, Src: src, DstCol: col, SrcCol: of, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
		Weight: l.Builder.constants(fmt.Sprintf("%d times 0", n), n, func(int) float64 { return 0 }),
		Bias: l.Builder.constants(fmt.Sprintf("%d of 1 and 0", n), n, func(i int) float64 {
			if i < n/2 {
				return 1
			}
			return 0
		}),
	})
}

// decomposed adds the products of queries with what embeddings of distances have of each wave, behind each head's own dimensions.
func (l Layer) decomposed(r Decomposed, queries kernel.Buf, wide projection, width int) {
	heads, d, n := l.NHead, l.HeadDim, r.pairs()
	by := l.Floats("queries of distances", kernel.TokRows, heads*4*n)
	sine := func(x float64) float64 { return -exactmath.Sin(x) }
	for i, set := range r.Sets {
		for part, wave := range []func(x float64) float64{exactmath.Cos, sine} {
			for axis, name := range r.Rows {
				m := must(l.weights.Summed(l.prefix+name, fmt.Sprintf("%s %d", set.Name, part), d, r.Of, r.waves(set, wave), heads))
				act := l.headAct(d, m)
				l.Add(kernel.ToAct{Act: act, Src: queries, Rows: kernel.HeadRows, Cols: d, Heads: kernel.Spread{N: heads, Step: d}})
				l.Add(kernel.Matmul{
					Dst: by, Act: act, Rows: kernel.HeadRows, Parts: []kernel.Part{{Matrix: m, Col: (2*part + axis) * n}},
					Heads: kernel.Spread{N: heads, Step: 4 * n},
				})
			}
		}
		if len(r.Sets) > 1 {
			l.Add(kernel.Gate{
				Dst: by, Src: l.sets(len(r.Sets)), SrcCol: i * kernel.Panel, Cols: heads * 4 * n, Fn: kernel.NoFn, ByRow: true,
			})
		}
		for h := range heads {
			op := kernel.NormRows{
				Dst: wide.buf, Src: by, DstCol: h*width + d, SrcCol: h * 4 * n, Cols: 4 * n, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
			}
			if i > 0 {
				op.Epilogue = kernel.Add
			}
			l.Add(op)
		}
	}
}

// Feed is x += down(fn(up(norm(x)))), with biases where the file has them.
func (l Layer) Feed(norm, up, down string, fn kernel.Fn) {
	l.Normed(l.normed(), l.X(), kernel.TokRows, norm)
	l.fed(l.normed(), up, down, fn)
}

// fed is Feed of what is normalised.
func (l Layer) fed(src kernel.Buf, up, down string, fn kernel.Fn) {
	n := l.Config.NEmbd
	m := l.channels(l.prefix + up)
	part := kernel.Part{Matrix: l.Matrix(up+".weight", n, m), Bias: l.optional(up+".bias", m)}
	act, hidden := l.Act("fed", kernel.TokRows, n, part.Matrix), l.Floats("ffn", kernel.TokRows, m)
	l.Add(kernel.ToAct{Act: act, Src: src, Cols: n})
	l.Add(kernel.Matmul{Dst: hidden, Act: act, Parts: []kernel.Part{part}, Epilogue: kernel.Apply, Fn: fn})
	l.clippedSum(hidden, m, down, "", 1)
}
