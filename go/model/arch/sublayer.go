package arch

import "github.com/quern-llm/quern/go/kernel"

// A sublayer is one of the parts of a block that add to the residual: attention,
// feed-forward.
type sublayer struct {
	in  []kernel.Matrix      // what multiplies its input
	run func(act kernel.Act) // adds its operations, given the input as these take it
}

// residual adds x += h(norm(x)), for several sublayers side by side x += the sum of
// theirs. Without a name the input is x itself.
func (l layer) residual(norm string, sublayers ...sublayer) {
	var mats []kernel.Matrix
	for _, h := range sublayers {
		mats = append(mats, h.in...)
	}
	act := l.act("embd", kernel.TokRows, l.cfg.NEmbd, mats...)
	if norm == "" {
		l.add(kernel.ToAct{Act: act, Src: l.input(), Cols: l.cfg.NEmbd})
	} else {
		l.add(l.norm(act, l.input(), kernel.TokRows, norm))
	}
	for _, h := range sublayers {
		h.run(l.only(act, h.in...))
	}
}

// sideBySide adds x += h(norm(x)) + other(second(x)): two sublayers side by side, each after a norm of its
// own.
func (l layer) sideBySide(norm string, h sublayer, second string, other sublayer) {
	act := l.act("embd", kernel.TokRows, l.cfg.NEmbd, h.in...)
	otherAct := l.act("embd beside", kernel.TokRows, l.cfg.NEmbd, other.in...)
	l.add(l.norm(act, l.x(), kernel.TokRows, norm))
	l.add(l.norm(otherAct, l.x(), kernel.TokRows, second))
	h.run(act)
	other.run(otherAct)
}

// inner makes activations of n columns of src for the product that ends a sublayer, normalised
// where sub names a norm.
func (l layer) inner(act kernel.Act, src kernel.Buf, n int, sub string) {
	if sub == "" {
		l.add(kernel.ToAct{Act: act, Src: src, Cols: n})
		return
	}
	l.add(kernel.Norm{Act: act, Src: src, Cols: n, Kind: l.cfg.Norm, Eps: l.cfg.Eps, Weight: l.vector(sub+".weight", n)})
}

// result adds the product that ends a sublayer to the residual, normalised where post
// names a norm.
func (l layer) result(act kernel.Act, out kernel.Part, post string) {
	c := l.cfg
	if post == "" {
		l.add(kernel.Matmul{Dst: l.x(), Act: act, Epilogue: l.takeEpilogue(), Scale: c.ResidualScale, Parts: []kernel.Part{out}})
		return
	}
	l.add(kernel.Matmul{Dst: l.sublayerOut(), Act: act, Parts: []kernel.Part{out}})
	l.normTo(l.x(), l.sublayerOut(), l.takeEpilogue(), post)
}

// takeEpilogue says how the next sublayer adds its result to x, and takes storeNext back: only the first sublayer
// stores it, where the residual is elsewhere, see connect.
func (b *builder) takeEpilogue() kernel.Epilogue {
	if b.storeNext {
		b.storeNext = false
		return kernel.Store
	}
	return kernel.Add
}

// sublayerOut has the result of a sublayer before it is normalised.
func (l layer) sublayerOut() kernel.Buf { return l.floats("sublayer", kernel.TokRows, l.cfg.NEmbd) }

// normTo stores the norm of src in dst, or adds it.
func (l layer) normTo(dst, src kernel.Buf, to kernel.Epilogue, name string) {
	c := l.cfg
	l.add(kernel.NormRows{
		Dst: dst, Src: src, Cols: c.NEmbd, Segs: 1, Kind: c.Norm, Eps: c.Eps, Scale: c.ResidualScale, Epilogue: to,
		Weight: l.normWeights(name, c.NEmbd), Bias: l.optional(name+".bias", c.NEmbd),
	})
}

// lowRank is dst = second(first(input)). between says what becomes of the first product.
func (l layer) lowRank(use string, act kernel.Act, first kernel.Matrix, between kernel.Matmul, dst kernel.Buf, second kernel.Part) {
	low := l.floats(use+".low", kernel.TokRows, first.Out)
	lowAct := l.act(use+".low", kernel.TokRows, first.Out, second.Matrix)
	between.Dst, between.Act, between.Parts = low, l.only(act, first), []kernel.Part{{Matrix: first}}
	l.add(between)
	l.add(kernel.ToAct{Act: lowAct, Src: low, Cols: first.Out})
	l.add(kernel.Matmul{Dst: dst, Act: lowAct, Parts: []kernel.Part{second}})
}

// ontoNorm has x = scale * norm(x) + h(norm(x)).
func (l layer) ontoNorm(norm string, h sublayer) {
	c := l.cfg
	act := l.act("embd", kernel.TokRows, c.NEmbd, h.in...)
	l.add(l.norm(act, l.x(), kernel.TokRows, norm))
	l.add(kernel.NormRows{
		Dst: l.x(), Src: l.x(), Cols: c.NEmbd, Segs: 1, Kind: c.Norm, Eps: c.Eps, Scale: c.NormedScale, Weight: l.normWeights(norm, c.NEmbd),
	})
	h.run(act)
}

// linear is a product alone.
func (l layer) linear(name string) sublayer {
	m := l.matrix(name+".weight", l.cfg.NEmbd, l.cfg.NEmbd)
	return sublayer{in: []kernel.Matrix{m}, run: func(act kernel.Act) {
		l.result(act, kernel.Part{Matrix: m, Bias: l.optional(name+".bias", l.cfg.NEmbd)}, "")
	}}
}
