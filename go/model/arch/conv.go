package arch

import "github.com/quern-llm/quern/go/kernel"

// convolution is out_proj(b * conv(a * c)), with a, b and c from in_proj, over the
// last `taps` positions.
func (l layer) convolution(taps int) sublayer {
	n := l.cfg.NEmbd
	in := l.matrix("shortconv.in_proj.weight", n, 3*n)
	out := l.matrix("shortconv.out_proj.weight", n, n)
	return sublayer{in: []kernel.Matrix{in}, run: func(act kernel.Act) {
		src, dst := l.floats("conv.in", kernel.TokRows, 3*n), l.floats("conv", kernel.TokRows, n)
		group, offset := l.state(recurrent(kernel.ConvBytes(n, taps)))
		outAct := l.act("conv", kernel.TokRows, n, out)
		l.add(kernel.Matmul{Dst: src, Act: act, Parts: []kernel.Part{{Matrix: in}}})
		l.add(kernel.Conv{
			Dst: dst, Src: src, Col: [3]int{0, n, 2 * n}, Gated: true, Cols: n, Taps: taps, Group: group, Offset: offset,
			Weight: l.vector("shortconv.conv.weight", taps, n),
		})
		l.add(kernel.ToAct{Act: outAct, Src: dst, Cols: n})
		l.result(outAct, kernel.Part{Matrix: out}, "")
	}}
}

// recurrent is the share of an operation of the state that a sequence has as a whole.
func recurrent(bytes int) kernel.Group {
	return kernel.Group{Name: "recurrent", Bytes: bytes, PerSequence: true}
}
