package nn

import "github.com/quern-llm/quern/go/kernel"

// FeedForward says what a dense feed-forward is: down(fn(gate(input)) * up(input)) by the tensors ffn_gate, ffn_up and
// ffn_down. Biases are used if the file has them.
type FeedForward struct {
	Fn         kernel.Fn
	Ungated    bool    // no gate: down(fn(up(input)))
	XIELU      bool    // no gate, and the function is xIELU
	Clipped    bool    // products are within limits: see ClippedResidual
	Swapped    bool    // the tensors ffn_up and ffn_down have each other's names
	Fused      bool    // ffn_up has the rows of the gate before its own
	Shared     bool    // the shared experts, as one feed-forward: tensors end in _shexp
	limited    bool    // within LayerConfig.SharedLimit, as shared experts are
	SharedGate bool    // shared experts are multiplied by sigmoid(ffn_gate_inp_shexp(input)), one number per token
	SubNorm    string  // the norm before ffn_down
	Beside     bool    // stores its result in a buffer, to which Experts with a PostNorm add theirs: see AddBoth
	Onto       bool    // adds its result to what Experts with a SumNorm have stored
	PostNorm   string  // the norm of the result, before it is added to the residual
	PostScale  string  // a tensor of factors of its columns, instead, where the file has it
	Scale      float32 // of the result; 0: 1
	Adapters   bool    // gate and up have adapters: see SharedBlock
}

// FeedForward is down(fn(gate(input)) * up(input)).
func (l Layer) FeedForward(f FeedForward) Sublayer {
	c := l.Config
	f.Fn = c.fn(f.Fn, f.XIELU)
	width, suffix := l.NFF, ""
	if f.Shared {
		width, suffix = c.NFFShared, "_shexp"
	}
	part := func(name string) kernel.Part {
		name = name + suffix
		return kernel.Part{
			Matrix: l.Matrix(name+".weight", c.NEmbd, width), Bias: l.optional(name+".bias", width),
		}
	}
	upName, downName := "ffn_up", "ffn_down"+suffix
	if f.Swapped {
		upName, downName = downName, upName
	}
	var parts []kernel.Part
	switch {
	case f.Ungated || f.XIELU:
		parts = []kernel.Part{part(upName)}
	case f.Fused:
		both := "ffn_up" + suffix + ".weight"
		parts = []kernel.Part{
			{Matrix: l.rows(both, c.NEmbd, 2*width, 0, width, 1)},
			{Matrix: l.rows(both, c.NEmbd, 2*width, width, width, 1)},
		}
	default:
		parts = []kernel.Part{part("ffn_gate"), part(upName)}
	}
	down := l.Matrix(downName+".weight", width, c.NEmbd)
	h := Sublayer{}
	for _, p := range parts {
		h.In = append(h.In, p.Matrix)
	}
	var adapters []adapter
	if f.Adapters {
		adapters = []adapter{
			l.adapter("ffn_adapter_a", "ffn_gate_adapter_b", c.NEmbd, width),
			l.adapter("ffn_adapter_a", "ffn_up_adapter_b", c.NEmbd, width),
		}
		h.In = append(h.In, adapters[0].first)
	}
	var gate kernel.Matrix
	if f.SharedGate {
		gate = l.Matrix("ffn_gate_inp_shexp.weight", c.NEmbd, 1)
		h.In = append(h.In, gate)
	}
	h.Run = func(act kernel.Act) {
		ffn := l.Floats("ffn", kernel.TokRows, width)
		ffnAct := l.Act("ffn", kernel.TokRows, width, down)
		epilogue := kernel.GLU
		if f.Ungated {
			epilogue = kernel.Apply
		}
		if f.XIELU {
			epilogue = kernel.Store
		}
		switch {
		case f.Clipped:
			l.clippedGate(ffn, parts[0], parts[1], f.Fn)
			l.clippedResult(ffn, width, kernel.Part{Matrix: down, Bias: l.optional(downName+".bias", c.NEmbd)}, downName, f.PostNorm)
			return
		case l.GateCutoff != 0:
			l.sparse(act, ffn, parts, f.Fn)
		case f.Adapters:
			l.adaptedGate(act, ffn, parts, adapters, f.Fn)
		default:
			m := kernel.Matmul{Dst: ffn, Act: act, Parts: parts, Epilogue: epilogue, Fn: f.Fn}
			if f.Shared || f.limited {
				m.Limit, m.LimitFn = l.SharedLimit, c.LimitFn
			}
			l.Add(l.capped(m))
		}
		if f.XIELU {
			l.Add(kernel.XIELU{Dst: ffn, Cols: width, XIELUParams: l.XIELU})
		}
		if f.SharedGate { // before the last product, which is linear: there the rows are short
			g := l.Floats("shared.gate", kernel.TokRows, 1)
			l.Add(kernel.Matmul{Dst: g, Act: l.Only(act, gate), Parts: []kernel.Part{{Matrix: gate}}})
			l.Add(kernel.Gate{Dst: ffn, Src: g, Cols: width, Fn: kernel.Sigmoid, ByRow: true})
		}
		l.inner(ffnAct, ffn, width, f.SubNorm)
		out := kernel.Part{Matrix: down, Bias: l.optional(downName+".bias", c.NEmbd)}
		if f.Beside {
			l.Add(kernel.Matmul{Dst: l.sublayerOut(), Act: ffnAct, Parts: []kernel.Part{out}})
			l.normTo(l.both(), l.sublayerOut(), kernel.Store, f.PostNorm)
			return
		}
		if f.Onto {
			l.Add(kernel.Matmul{
				Dst: l.sublayerOut(), Act: ffnAct, Epilogue: kernel.Add, Scale: f.Scale,
				Parts: []kernel.Part{out},
			})
			return
		}
		if f.Scale != 0 {
			l.Add(kernel.Matmul{
				Dst: l.X(), Act: ffnAct, Epilogue: l.takeEpilogue(), Scale: c.ResidualScale * f.Scale,
				Parts: []kernel.Part{out},
			})
			return
		}
		l.scaledResult(ffnAct, out, f.PostNorm, f.PostScale)
	}
	return h
}

// capped is the product with a gate of a feed-forward, with the caps that the model has.
func (l Layer) capped(m kernel.Matmul) kernel.Matmul {
	if c := l.Config; c.GateCap > 0 && m.Epilogue == kernel.GLU {
		m.Softcap, m.Limit = c.GateCap, c.UpCap
	}
	return m
}

// sparse is fn(gate(input)) * up(input) with most gates closed: fn of 0 is 0.
func (l Layer) sparse(act kernel.Act, dst kernel.Buf, parts []kernel.Part, fn kernel.Fn) {
	gate := l.Floats("ffn gate", kernel.TokRows, l.NFF)
	l.Add(kernel.Matmul{Dst: gate, Act: l.Only(act, parts[0].Matrix), Parts: parts[:1]})
	l.Add(kernel.Sparse{Dst: gate, Cols: l.NFF, Cutoff: l.GateCutoff})
	l.Add(kernel.Matmul{Dst: dst, Act: l.Only(act, parts[1].Matrix), Parts: parts[1:]})
	l.Add(kernel.Gate{Dst: dst, Src: gate, Cols: l.NFF, Fn: fn})
}
