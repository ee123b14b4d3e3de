package nn

import "github.com/quern-llm/quern/go/kernel"

// Q-Formers (Li et al. 2023, "BLIP-2"): queries that were learned ask the rows of their window. Rows and queries of a window are
// tokens in succession.

// BringWindows has tokens bring what a QFormer reads: a row, x behind it, and two panels, of which the first number is added to
// scores of keys: of those that are x, and of those that are rows.
func (b *Builder) BringWindows(width int) {
	n := b.Config.NEmbd
	b.Add(kernel.Input{Dst: b.whole("heard", width), Cols: width, Clear: true})
	b.Add(kernel.Input{Dst: b.X(), From: width, Cols: n, Clear: true})
	b.bringSeen(width + n)
}

// bringSeen has tokens bring what is added to scores of keys, from column `from` on.
func (b *Builder) bringSeen(from int) {
	b.Add(kernel.Input{Dst: b.whole("seen keys", 2*kernel.Panel), From: from, Cols: 2 * kernel.Panel, Clear: true})
}

// BringPart has tokens bring the rows of a Keep, and behind them what is added to those of number i: a row, x, or both are their
// sum, before and behind a norm. The panels of BringWindows follow.
func (k Keep) BringPart(i int, norm string) {
	b := k.b
	n := b.Config.NEmbd
	k.bring(0)
	heard := b.whole("heard", n)
	b.Add(kernel.Input{Dst: heard, From: i * n, Cols: n, Clear: true})
	b.Add(kernel.Input{Dst: heard, From: k.width, Cols: n, Add: true})
	b.Normed(b.X(), heard, kernel.TokRows, norm)
	b.bringSeen(k.width + n)
}

// QFormer is a layer of queries that see each other, and then rows of `width` numbers in their window, each behind a norm of the
// sum.
func (l Layer) QFormer(width int) {
	n := l.Config.NEmbd
	for i, name := range []string{"self_attn", "cross_attn"} {
		of, cols := l.X(), n
		if i > 0 {
			of, cols = l.whole("heard", width), width
		}
		wide := l
		wide.HeadDim = l.HeadDim + kernel.Panel
		w := wide.HeadDim
		q := projection{buf: l.Floats("wide", kernel.TokRows, l.NHead*(2*w+l.HeadDim)), col: [3]int{0, l.NHead * w, 2 * l.NHead * w}}
		plain := l.Floats("qkv", kernel.TokRows, n)
		for j, letter := range []string{"_q", "_k", "_v"} {
			src, in := of, cols
			if j == 0 {
				src, in = l.X(), n
			}
			part := kernel.Part{Matrix: l.Matrix(name+letter+".weight", in, n), Bias: l.optional(name+letter+".bias", n)}
			l.clipped(plain, src, in, part, name+letter)
			each := w
			if j == 2 {
				each = l.HeadDim
			}
			for h := range l.NHead {
				l.Add(kernel.NormRows{
					Dst: q.buf, DstCol: q.col[j] + h*each, Src: plain, SrcCol: h * l.HeadDim, Cols: l.HeadDim, Segs: 1, Kind: kernel.NoNorm,
					Scale: []float32{l.AttnScale, 1, 1}[j],
				})
				at := q.col[j] + h*each + l.HeadDim
				switch j {
				case 0:
					l.one(q.buf, at, 1)
				case 1:
					l.Add(kernel.NormRows{
						Dst: q.buf, DstCol: at, Src: l.whole("seen keys", 2*kernel.Panel), SrcCol: i * kernel.Panel, Cols: kernel.Panel, Segs: 1,
						Kind: kernel.NoNorm, Scale: 1,
					})
				}
			}
		}
		att := wide.attendRows(q, 1, kernel.Attend{Sight: kernel.OnlySpan})
		l.clippedSum(att, n, name+"_out", "", 1)
		if l.Normalise(name + "_norm"); i == 0 {
			l.cut() // what the second attention keeps takes the place of what the first did
		}
	}
	l.fed(l.X(), "ffn_up", "ffn_down", kernel.GELUErf)
	l.Normalise("ffn_norm")
}
