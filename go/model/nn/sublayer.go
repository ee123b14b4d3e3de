package nn

import (
	"cmp"

	"github.com/quern-llm/quern/go/kernel"
)

// A Sublayer is a part of a block that adds to the residual, such as attention and feed-forward.
type Sublayer struct {
	In  []kernel.Matrix      // the matrices that multiply its input
	Run func(act kernel.Act) // adds its operations; act is the input in the kinds that In takes
}

// Residual adds x += h(norm(x)), or the sum of several sublayers of the same input. Without a norm the input is x.
func (l Layer) Residual(norm string, sublayers ...Sublayer) {
	var mats []kernel.Matrix
	for _, h := range sublayers {
		mats = append(mats, h.In...)
	}
	act := l.Act("embd", kernel.TokRows, l.Config.NEmbd, mats...)
	if norm == "" {
		l.Add(kernel.ToAct{Act: act, Src: l.input(), Cols: l.Config.NEmbd})
	} else {
		op := l.Norm(act, l.input(), kernel.TokRows, norm)
		l.even(&op, norm, mats)
		l.Add(op)
	}
	for _, h := range sublayers {
		h.Run(l.Only(act, h.In...))
	}
}

// SideBySide adds x += h(norm(x)) + other(second(x)): parallel sublayers with a norm each.
func (l Layer) SideBySide(norm string, h Sublayer, second string, other Sublayer) {
	act := l.Act("embd", kernel.TokRows, l.Config.NEmbd, h.In...)
	otherAct := l.Act("embd beside", kernel.TokRows, l.Config.NEmbd, other.In...)
	l.Add(l.Norm(act, l.X(), kernel.TokRows, norm))
	l.Add(l.Norm(otherAct, l.X(), kernel.TokRows, second))
	h.Run(act)
	other.Run(otherAct)
}

// inner puts n columns of src into act, the input of the last product of a sublayer, after a norm if sub is not "".
func (l Layer) inner(act kernel.Act, src kernel.Buf, n int, sub string) {
	if sub == "" {
		l.Add(kernel.ToAct{Act: act, Src: src, Cols: n})
		return
	}
	l.Add(kernel.Norm{
		Act: act, Src: src, Cols: n, Kind: l.Config.Norm, Eps: l.Config.Eps, Weight: l.Vector(sub+".weight", n),
	})
}

// result adds the last product of a sublayer to the residual, after a norm if post is not "".
func (l Layer) result(act kernel.Act, out kernel.Part, post string) {
	c := l.Config
	if post == "" {
		l.Add(kernel.Matmul{
			Dst: l.X(), Act: act, Epilogue: l.takeEpilogue(), Scale: c.ResidualScale,
			Parts: []kernel.Part{out},
		})
		return
	}
	l.Add(kernel.Matmul{Dst: l.sublayerOut(), Act: act, Parts: []kernel.Part{out}})
	l.normTo(l.X(), l.sublayerOut(), l.takeEpilogue(), post)
}

// scaledResult is result, with the columns of the product multiplied by the factors of a tensor if the file has one of the
// name scale (LayerScale, Touvron et al. 2021).
func (l Layer) scaledResult(act kernel.Act, out kernel.Part, post, scale string) {
	if scale == "" || !l.Has(scale+".weight") {
		l.result(act, out, post)
		return
	}
	c := l.Config
	l.Add(kernel.Matmul{Dst: l.sublayerOut(), Act: act, Parts: []kernel.Part{out}})
	l.Add(kernel.NormRows{
		Dst: l.X(), Src: l.sublayerOut(), Cols: c.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: c.ResidualScale,
		Epilogue: l.takeEpilogue(), Weight: l.Vector(scale+".weight", c.NEmbd),
	})
}

// takeEpilogue returns how the next sublayer puts its result into x, and resets storeNext: only the first sublayer
// after it stores, the next ones add. See Connect.
func (b *Builder) takeEpilogue() kernel.Epilogue {
	if b.storeNext {
		b.storeNext = false
		return kernel.Store
	}
	return kernel.Add
}

// sublayerOut is the buffer with the result of a sublayer before its norm.
func (l Layer) sublayerOut() kernel.Buf { return l.Floats("sublayer", kernel.TokRows, l.Config.NEmbd) }

// normTo stores or adds the norm of src in dst, scaled by ResidualScale.
func (l Layer) normTo(dst, src kernel.Buf, to kernel.Epilogue, name string) {
	c := l.Config
	l.Add(kernel.NormRows{
		Dst: dst, Src: src, Cols: c.NEmbd, Segs: 1, Kind: c.Norm, Eps: cmp.Or(c.PostEps, c.Eps),
		Scale: c.ResidualScale, Epilogue: to,
		Weight: l.NormWeights(name, c.NEmbd), Bias: l.optional(name+".bias", c.NEmbd),
	})
}

// lowRank is dst = second(between(first(input))): a product of two matrices of low rank. between is the epilogue of the
// first.
func (l Layer) lowRank(use string, act kernel.Act, first kernel.Matrix, between kernel.Matmul, dst kernel.Buf,
	second kernel.Part) {
	low := l.Floats(use+".low", kernel.TokRows, first.Out)
	lowAct := l.Act(use+".low", kernel.TokRows, first.Out, second.Matrix)
	between.Dst, between.Act, between.Parts = low, l.Only(act, first), []kernel.Part{{Matrix: first}}
	l.Add(between)
	l.Add(kernel.ToAct{Act: lowAct, Src: low, Cols: first.Out})
	l.Add(kernel.Matmul{Dst: dst, Act: lowAct, Parts: []kernel.Part{second}})
}

// DeepNorm is x = scale * norm(x) + h(norm(x)) (Wang et al. 2022, "DeepNet").
func (l Layer) DeepNorm(norm string, scale float32, h Sublayer) {
	c := l.Config
	act := l.Act("embd", kernel.TokRows, c.NEmbd, h.In...)
	l.Add(l.Norm(act, l.X(), kernel.TokRows, norm))
	l.Add(kernel.NormRows{
		Dst: l.X(), Src: l.X(), Cols: c.NEmbd, Segs: 1, Kind: c.Norm, Eps: c.Eps, Scale: scale,
		Weight: l.NormWeights(norm, c.NEmbd),
	})
	h.Run(act)
}

// Linear is one product in place of attention.
func (l Layer) Linear(name string) Sublayer {
	m := l.Matrix(name+".weight", l.Config.NEmbd, l.Config.NEmbd)
	return Sublayer{In: []kernel.Matrix{m}, Run: func(act kernel.Act) {
		l.result(act, kernel.Part{Matrix: m, Bias: l.optional(name+".bias", l.Config.NEmbd)}, "")
	}}
}
