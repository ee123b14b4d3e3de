package nn

import "github.com/quern-llm/quern/go/kernel"

// ShortConv is out_proj(b * conv(a * c)), with a, b and c from in_proj, over the last `taps` positions (LFM 2).
func (l Layer) ShortConv(taps int) Sublayer {
	n := l.Config.NEmbd
	in := l.Matrix("shortconv.in_proj.weight", n, 3*n)
	out := l.Matrix("shortconv.out_proj.weight", n, n)
	return Sublayer{In: []kernel.Matrix{in}, Run: func(act kernel.Act) {
		src, dst := l.Floats("conv.in", kernel.TokRows, 3*n), l.Floats("conv", kernel.TokRows, n)
		group, offset := l.state(recurrent(kernel.ConvBytes(n, taps)))
		outAct := l.Act("conv", kernel.TokRows, n, out)
		l.Add(kernel.Matmul{Dst: src, Act: act, Parts: []kernel.Part{{Matrix: in}}})
		l.Add(kernel.Conv{
			Dst: dst, Src: src, Col: [3]int{0, n, 2 * n}, Gated: true, Cols: n, Taps: taps, Group: group,
			Offset: offset,
			Weight: l.Vector("shortconv.conv.weight", taps, n),
		})
		l.Add(kernel.ToAct{Act: outAct, Src: dst, Cols: n})
		l.result(outAct, kernel.Part{Matrix: out}, "")
	}}
}

// recurrent is a group of state that a sequence has once, not per position.
func recurrent(bytes int) kernel.Group {
	return kernel.Group{Name: "recurrent", Bytes: bytes, PerSequence: true}
}
