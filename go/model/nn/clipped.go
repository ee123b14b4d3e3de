package nn

import (
	"strings"

	"github.com/quern-llm/quern/go/kernel"
)

// Products within limits: files have, beside a matrix, the least and the most that its input may be, and its result
// (Gemma 4, 2026). Each matrix has its own, so that no two share an input.

// ClippedResidual is Residual with a sublayer whose products are Clipped.
func (l Layer) ClippedResidual(norm string, h Sublayer) {
	l.Normed(l.normed(), l.X(), kernel.TokRows, norm)
	h.Run(nil)
}

// normed is the buffer with the input of such a sublayer.
func (l Layer) normed() kernel.Buf { return l.Floats("normed", kernel.TokRows, l.Config.NEmbd) }

// clipped is the product of `in` columns of src with a part's matrix in dst. name is that of the matrix, which may have more
// columns, of zeros.
func (l Layer) clipped(dst, src kernel.Buf, in int, part kernel.Part, name string) {
	limited, act := l.Floats("limited", kernel.TokRows, in), l.Act("limited", kernel.TokRows, in, part.Matrix)
	l.within(limited, src, 0, in, name+".input")
	l.Add(kernel.ToAct{Act: act, Src: limited, Cols: in})
	l.Add(kernel.Matmul{Dst: dst, Act: act, Parts: []kernel.Part{part}})
	if l.Has(name + ".output_min") {
		l.within(dst, dst, part.Col, part.Matrix.Out, name+".output")
	}
}

// within copies n columns, and keeps them between the numbers of the tensors of these names, if the file has them.
func (l Layer) within(dst, src kernel.Buf, col, n int, stem string) {
	op := kernel.NormRows{
		Dst: dst, Src: src, DstCol: col, SrcCol: col, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
	}
	if l.Has(stem + "_min") {
		low, high := l.Vector(stem+"_min", 1), l.Vector(stem+"_max", 1)
		if low != nil && high != nil { // there is memory
			op.Low, op.High = low[0], high[0]
		}
	}
	l.Add(op)
}

// clippedQueries is the projections to queries, keys and values.
func (l Layer) clippedQueries(q projection) {
	for i, part := range q.parts {
		l.clipped(q.buf, l.normed(), l.Config.NEmbd, part, strings.TrimSuffix(strings.TrimPrefix(q.names[i], l.prefix), ".weight"))
	}
}

// clippedResult adds the last product of a sublayer to the residual, after a norm if post is not "".
func (l Layer) clippedResult(src kernel.Buf, in int, out kernel.Part, name, post string) {
	l.clipped(l.sublayerOut(), src, in, out, name)
	if post != "" {
		l.normTo(l.X(), l.sublayerOut(), kernel.Add, post)
		return
	}
	l.Add(kernel.NormRows{
		Dst: l.X(), Src: l.sublayerOut(), Cols: l.Config.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: 1, Epilogue: kernel.Add,
	})
}

// clippedGate is fn(gate(input)) * up(input).
func (l Layer) clippedGate(dst kernel.Buf, gate, up kernel.Part, fn kernel.Fn) {
	open := l.Floats("ffn gate", kernel.TokRows, gate.Matrix.Out)
	l.clipped(open, l.normed(), l.Config.NEmbd, gate, "ffn_gate")
	l.clipped(dst, l.normed(), l.Config.NEmbd, up, "ffn_up")
	l.Add(kernel.Gate{Dst: dst, Src: open, Cols: gate.Matrix.Out, Fn: fn})
}
