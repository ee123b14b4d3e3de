package arch

import "github.com/quern-llm/quern/go/kernel"

// feedForward says what a dense feed-forward is. Biases are used where the file
// has them.
type feedForward struct {
	fn      kernel.Fn
	plain   bool    // there is no gate: down(fn(up(input)))
	xielu   bool    // so it is, and fn is xIELU
	fused   bool    // ffn_up has the rows of the gate before its own
	shared  bool    // the experts that every token uses, in one: tensors end in _shexp
	limited bool    // as they are, by Layer.SharedLimit
	gated   bool    // of shared ones: times sigmoid(ffn_gate_inp_shexp(input)), a number for each token
	sub     string  // the norm of what down multiplies
	beside  bool    // experts are beside it: the result is stored for theirs to be added, see experts.post
	onto    bool    // the result is added to what the experts have stored, see experts.sum
	post    string  // the norm of the result, before it is added
	scale   float32 // of the result; 0: 1
}

// feedForward is down(fn(gate(input)) * up(input)).
func (l layer) feedForward(f feedForward) sublayer {
	c := l.cfg
	width, suffix := l.NFF, ""
	if f.shared {
		width, suffix = c.NFFShared, "_shexp"
	}
	part := func(name string) kernel.Part {
		name = name + suffix
		return kernel.Part{Matrix: l.matrix(name+".weight", c.NEmbd, width), Bias: l.optional(name+".bias", width)}
	}
	var parts []kernel.Part
	switch {
	case f.plain || f.xielu:
		parts = []kernel.Part{part("ffn_up")}
	case f.fused:
		both := "ffn_up" + suffix + ".weight"
		parts = []kernel.Part{
			{Matrix: l.rows(both, c.NEmbd, 2*width, 0, width, 1)}, {Matrix: l.rows(both, c.NEmbd, 2*width, width, width, 1)},
		}
	default:
		parts = []kernel.Part{part("ffn_gate"), part("ffn_up")}
	}
	downName := "ffn_down" + suffix
	down := l.matrix(downName+".weight", width, c.NEmbd)
	h := sublayer{}
	for _, p := range parts {
		h.in = append(h.in, p.Matrix)
	}
	var gate kernel.Matrix
	if f.gated {
		gate = l.matrix("ffn_gate_inp_shexp.weight", c.NEmbd, 1)
		h.in = append(h.in, gate)
	}
	h.run = func(act kernel.Act) {
		ffn := l.floats("ffn", kernel.TokRows, width)
		ffnAct := l.act("ffn", kernel.TokRows, width, down)
		epilogue := kernel.GLU
		if f.plain {
			epilogue = kernel.Apply
		}
		if f.xielu {
			epilogue = kernel.Store
		}
		if l.GateCutoff != 0 {
			l.sparse(act, ffn, parts, f.fn)
		} else {
			m := kernel.Matmul{Dst: ffn, Act: act, Parts: parts, Epilogue: epilogue, Fn: f.fn}
			if f.shared || f.limited {
				m.Limit, m.LimitFn = l.SharedLimit, c.LimitFn
			}
			l.add(l.capped(m))
		}
		if f.xielu {
			l.add(kernel.XIELU{Dst: ffn, Cols: width, XIELUParams: l.XIELU})
		}
		if f.gated { // before the last product, which is linear: there the rows are short
			g := l.floats("shared.gate", kernel.TokRows, 1)
			l.add(kernel.Matmul{Dst: g, Act: l.only(act, gate), Parts: []kernel.Part{{Matrix: gate}}})
			l.add(kernel.Gate{Dst: ffn, Src: g, Cols: width, Fn: kernel.Sigmoid, ByRow: true})
		}
		l.inner(ffnAct, ffn, width, f.sub)
		out := kernel.Part{Matrix: down, Bias: l.optional(downName+".bias", c.NEmbd)}
		if f.beside {
			l.add(kernel.Matmul{Dst: l.sublayerOut(), Act: ffnAct, Parts: []kernel.Part{out}})
			l.normTo(l.both(), l.sublayerOut(), kernel.Store, f.post)
			return
		}
		if f.onto {
			l.add(kernel.Matmul{Dst: l.sublayerOut(), Act: ffnAct, Epilogue: kernel.Add, Scale: f.scale, Parts: []kernel.Part{out}})
			return
		}
		if f.scale != 0 {
			l.add(kernel.Matmul{Dst: l.x(), Act: ffnAct, Epilogue: l.takeEpilogue(), Scale: c.ResidualScale * f.scale, Parts: []kernel.Part{out}})
			return
		}
		l.result(ffnAct, out, f.post)
	}
	return h
}

// capped is the product with a gate of a feed-forward, with the caps that the model has.
func (l layer) capped(m kernel.Matmul) kernel.Matmul {
	if c := l.cfg; c.GateCap > 0 && m.Epilogue == kernel.GLU {
		m.Softcap, m.Limit = c.GateCap, c.UpCap
	}
	return m
}

// sparse is fn(gate(input)) * up(input) with most gates closed: fn of 0 is 0.
func (l layer) sparse(act kernel.Act, dst kernel.Buf, parts []kernel.Part, fn kernel.Fn) {
	gate := l.floats("ffn gate", kernel.TokRows, l.NFF)
	l.add(kernel.Matmul{Dst: gate, Act: l.only(act, parts[0].Matrix), Parts: parts[:1]})
	l.add(kernel.Sparse{Dst: gate, Cols: l.NFF, Cutoff: l.GateCutoff})
	l.add(kernel.Matmul{Dst: dst, Act: l.only(act, parts[1].Matrix), Parts: parts[1:]})
	l.add(kernel.Gate{Dst: dst, Src: gate, Cols: l.NFF, Fn: fn})
}
