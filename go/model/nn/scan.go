package nn

import (
	"cmp"

	"github.com/quern-llm/quern/go/kernel"
)

// Mamba2 is ssm_out(norm(scan(x, b, c) * silu(z))) (Dao and Gu 2024), with z, x, b, c and the steps from ssm_in, and a
// convolution over x, b and c. The norm is per group; with mayLackNorm it is used if the file has its weights. Biases of
// ssm_in and ssm_out are used if the file has them, in Mamba too.
func (l Layer) Mamba2(mayLackNorm bool) Sublayer {
	c, n := l.Config, l.Config.Scan
	nGroups := n.NGroup * n.State
	nConv := n.Inner + 2*nGroups // x, b and c
	in := l.Matrix("ssm_in.weight", c.NEmbd, n.Inner+nConv+n.NHead)
	out := l.Matrix("ssm_out.weight", n.Inner, c.NEmbd)
	return Sublayer{In: []kernel.Matrix{in}, Run: func(act kernel.Act) {
		src := l.Floats("scan.in", kernel.TokRows, n.Inner+nConv+n.NHead)
		x := l.Floats("scan.x", kernel.TokRows, nConv)
		y := l.Floats("scan", kernel.TokRows, n.Inner)
		bias := l.optional("ssm_in.bias", in.Out)
		l.Add(kernel.Matmul{Dst: src, Act: act, Parts: []kernel.Part{{Matrix: in, Bias: bias}}})
		l.scanConv(x, src, n.Inner, nConv)
		dim := n.Inner / n.NHead
		group, offset := l.state(recurrent(kernel.ScanBytes(n.NHead, n.State, dim)))
		l.Add(kernel.Scan{
			Dst: y, Src: x, Col: [3]int{0, n.Inner, n.Inner + nGroups}, Steps: src, StepCol: n.Inner + nConv,
			NHead: n.NHead, NGroup: n.NGroup, StateDim: n.State, HeadDim: dim, Group: group, Offset: offset,
			StepMin: n.StepMin, StepMax: n.StepMax,
			Bias: l.Vector("ssm_dt.bias", n.NHead), Rate: l.Vector("ssm_a", 1, n.NHead),
			Skip: l.Vector("ssm_d", 1, n.NHead),
		})
		l.Add(kernel.Gate{Dst: y, Src: src, Cols: n.Inner, Fn: kernel.SiLU})
		if name := "ssm_norm.weight"; !mayLackNorm || l.Has(name) {
			l.Add(kernel.NormRows{
				Dst: y, Src: y, Cols: n.Inner / n.NGroup, Segs: n.NGroup, SegWeights: true,
				Eps: cmp.Or(n.Eps, c.Eps), Scale: 1,
				Weight: l.Vector(name, n.Inner/n.NGroup, n.NGroup),
			})
		}
		l.scanResult(y, out)
	}}
}

// Mamba is ssm_out(scan(x, b, c) * silu(z)) (Gu and Dao 2023), with x and z from ssm_in, a convolution over x, and from
// the result b, c and a step per channel.
func (l Layer) Mamba(norms ScanNorm) Sublayer {
	c, n := l.Config, l.Config.Scan
	// The columns of one buffer: x, what the steps are made of, b, c, the steps.
	low, b, cc, step := n.Inner, n.Inner+n.Rank, n.Inner+n.Rank+n.State, n.Inner+n.Rank+2*n.State
	in := l.Matrix("ssm_in.weight", c.NEmbd, 2*n.Inner)
	from := l.Matrix("ssm_x.weight", n.Inner, n.Rank+2*n.State)
	steps := l.Matrix("ssm_dt.weight", n.Rank, n.Inner)
	out := l.Matrix("ssm_out.weight", n.Inner, c.NEmbd)
	return Sublayer{In: []kernel.Matrix{in}, Run: func(act kernel.Act) {
		src := l.Floats("scan.in", kernel.TokRows, 2*n.Inner)
		x := l.Floats("scan.x", kernel.TokRows, step+n.Inner)
		y := l.Floats("scan", kernel.TokRows, n.Inner)
		xAct := l.Act("scan.x", kernel.TokRows, n.Inner, from)
		lowAct := l.Act("scan.low", kernel.TokRows, n.Rank, steps)
		bias := l.optional("ssm_in.bias", in.Out)
		l.Add(kernel.Matmul{Dst: src, Act: act, Parts: []kernel.Part{{Matrix: in, Bias: bias}}})
		l.scanConv(x, src, 0, n.Inner)
		l.Add(kernel.ToAct{Act: xAct, Src: x, Cols: n.Inner})
		l.Add(kernel.Matmul{Dst: x, Act: xAct, Parts: []kernel.Part{{Matrix: from, Col: low}}})
		l.scanNorm(norms, x, "ssm_dt_norm", low, n.Rank)
		l.scanNorm(norms, x, "ssm_b_norm", b, n.State)
		l.scanNorm(norms, x, "ssm_c_norm", cc, n.State)
		l.Add(kernel.ToAct{Act: lowAct, Src: x, SrcCol: low, Cols: n.Rank})
		l.Add(kernel.Matmul{Dst: x, Act: lowAct, Parts: []kernel.Part{{Matrix: steps, Col: step}}})
		group, offset := l.state(recurrent(kernel.ScanBytes(1, n.State, n.Inner)))
		l.Add(kernel.Scan{
			Dst: y, Src: x, Col: [3]int{0, b, cc}, Steps: x, StepCol: step,
			NHead: 1, NGroup: 1, StateDim: n.State, HeadDim: n.Inner, ByChannel: true, Group: group, Offset: offset,
			Bias: l.Vector("ssm_dt.bias", n.Inner), Rate: l.channelRates(), Skip: l.Vector("ssm_d", n.Inner),
		})
		l.Add(kernel.Gate{Dst: y, Src: src, SrcCol: n.Inner, Cols: n.Inner, Fn: kernel.SiLU})
		l.scanResult(y, out)
	}}
}

// HeadScan is ssm_out(scan(x, b, c) * silu(z)) (PLaMo 2), with z and x of each head from ssm_in, a convolution over x,
// and from the result b, c and the low-rank input of the steps of heads, all normalised.
func (l Layer) HeadScan(post string) Sublayer {
	c, n := l.Config, l.Config.Scan
	dim := n.Inner / n.NHead
	gate := l.headRows("ssm_in.weight", c.NEmbd, 2*dim, 0, dim, n.NHead)
	in := l.headRows("ssm_in.weight", c.NEmbd, 2*dim, dim, dim, n.NHead)
	// The columns of one buffer: x, b, c, what the steps are made of, the steps.
	b, cc, low, step := n.Inner, n.Inner+n.State, n.Inner+2*n.State, n.Inner+2*n.State+n.Rank
	from := l.Matrix("ssm_x.weight", n.Inner, 2*n.State+n.Rank)
	steps := l.Matrix("ssm_dt.weight", n.Rank, n.NHead)
	out := l.Matrix("ssm_out.weight", n.Inner, c.NEmbd)
	return Sublayer{In: []kernel.Matrix{gate, in}, Run: func(act kernel.Act) {
		src, x := l.Floats("scan.in", kernel.TokRows, 2*n.Inner), l.Floats("scan.x", kernel.TokRows, step+n.NHead)
		y := l.Floats("scan", kernel.TokRows, n.Inner)
		xAct, lowAct := l.Act("scan.x", kernel.TokRows, n.Inner, from), l.Act("scan.low", kernel.TokRows, n.Rank, steps)
		l.Add(kernel.Matmul{
			Dst: src, Act: act, Parts: []kernel.Part{{Matrix: gate}, {Matrix: in, Col: n.Inner}},
		})
		l.scanConv(x, src, n.Inner, n.Inner)
		l.Add(kernel.ToAct{Act: xAct, Src: x, Cols: n.Inner})
		l.Add(kernel.Matmul{Dst: x, Act: xAct, Parts: []kernel.Part{{Matrix: from, Col: b}}})
		l.scanNorm(ScanNormWeighted, x, "ssm_b_norm", b, n.State)
		l.scanNorm(ScanNormWeighted, x, "ssm_c_norm", cc, n.State)
		l.scanNorm(ScanNormWeighted, x, "ssm_dt_norm", low, n.Rank)
		l.Add(kernel.ToAct{Act: lowAct, Src: x, SrcCol: low, Cols: n.Rank})
		l.Add(kernel.Matmul{Dst: x, Act: lowAct, Parts: []kernel.Part{{Matrix: steps, Col: step}}})
		group, offset := l.state(recurrent(kernel.ScanBytes(n.NHead, n.State, dim)))
		l.Add(kernel.Scan{
			Dst: y, Src: x, Col: [3]int{0, b, cc}, Steps: x, StepCol: step, NHead: n.NHead, NGroup: 1,
			StateDim: n.State, HeadDim: dim,
			Group: group, Offset: offset, Bias: l.Vector("ssm_dt.bias", n.NHead), Rate: l.Vector("ssm_a", n.NHead),
			Skip: l.Vector("ssm_d", n.NHead),
		})
		l.Add(kernel.Gate{Dst: y, Src: src, Cols: n.Inner, Fn: kernel.SiLU})
		outAct := l.Act("scan", kernel.TokRows, n.Inner, out)
		l.Add(kernel.ToAct{Act: outAct, Src: y, Cols: n.Inner})
		l.result(outAct, kernel.Part{Matrix: out}, post)
	}}
}

// scanConv adds the convolution over n columns of src from col on.
func (l Layer) scanConv(dst, src kernel.Buf, col, n int) {
	taps := l.Config.NTap
	group, offset := l.state(recurrent(kernel.ConvBytes(n, taps)))
	l.Add(kernel.Conv{
		Dst: dst, Src: src, Col: [3]int{col}, Cols: n, Taps: taps, Group: group, Offset: offset,
		Weight: l.Vector("ssm_conv1d.weight", taps, n), Bias: l.optional("ssm_conv1d.bias", n),
		Epilogue: kernel.Apply, Fn: kernel.SiLU,
	})
}

func (l Layer) scanResult(y kernel.Buf, out kernel.Matrix) {
	act := l.Act("scan", kernel.TokRows, l.Config.Scan.Inner, out)
	l.Add(kernel.ToAct{Act: act, Src: y, Cols: l.Config.Scan.Inner})
	l.result(act, kernel.Part{Matrix: out, Bias: l.optional("ssm_out.bias", out.Out)}, "")
}

// ScanNorm says how b, c and the low-rank input of the steps are normalised.
type ScanNorm int

const (
	ScanNormNone       ScanNorm = iota
	ScanNormUnweighted          // without weights
	ScanNormWeighted            // by ssm_b_norm, ssm_c_norm and ssm_dt_norm
)

// scanNorm normalises n columns of x in place.
func (l Layer) scanNorm(norms ScanNorm, x kernel.Buf, name string, col, n int) {
	op := kernel.NormRows{Dst: x, Src: x, DstCol: col, SrcCol: col, Cols: n, Segs: 1, Eps: l.Config.Eps, Scale: 1}
	switch norms {
	case ScanNormNone:
		return
	case ScanNormUnweighted:
		op.Eps = l.Config.Scan.Eps
	case ScanNormWeighted:
		op.Weight = l.NormWeights(name, n)
	}
	l.Add(op)
}

// channelRates returns the rates per channel and row of its state, in panels; the file has them channel by channel. nil
// without memory.
func (l Layer) channelRates() []float32 {
	n := l.Config.Scan
	file := l.Vector("ssm_a", n.State, n.Inner)
	rates := l.made("ssm_a in panels", n.State*n.Inner)
	if file == nil || rates == nil {
		return nil
	}
	for ch := range n.Inner {
		for i := range n.State {
			rates[(ch/kernel.Panel*n.State+i)*kernel.Panel+ch%kernel.Panel] = file[ch*n.State+i]
		}
	}
	return rates
}
