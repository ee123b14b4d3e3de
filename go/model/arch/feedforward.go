package arch

import "github.com/quern-llm/quern/go/kernel"

// feedForward says what a dense feed-forward is. Biases are used where the file
// has them.
type feedForward struct {
	fn    kernel.Fn
	plain bool   // there is no gate: down(fn(up(input)))
	fused bool   // ffn_up has the rows of the gate before its own
	post  string // the norm of the result, before it is added
}

// feedForward is down(fn(gate(input)) * up(input)).
func (l layer) feedForward(f feedForward) half {
	c := l.cfg
	part := func(name string) kernel.Part {
		m := l.matrix(l.blk+name+".weight", c.NEmbd, l.NFF)
		return kernel.Part{Matrix: m, Bias: l.optional(l.blk+name+".bias", l.NFF)}
	}
	var parts []kernel.Part
	switch {
	case f.plain:
		parts = []kernel.Part{part("ffn_up")}
	case f.fused:
		parts = []kernel.Part{
			{Matrix: l.rows(l.blk+"ffn_up.weight", c.NEmbd, 2*l.NFF, 0, l.NFF)},
			{Matrix: l.rows(l.blk+"ffn_up.weight", c.NEmbd, 2*l.NFF, l.NFF, l.NFF)},
		}
	default:
		parts = []kernel.Part{part("ffn_gate"), part("ffn_up")}
	}
	down := l.matrix(l.blk+"ffn_down.weight", l.NFF, c.NEmbd)
	h := half{}
	for _, p := range parts {
		h.in = append(h.in, p.Matrix)
	}
	h.run = func(act kernel.Act) {
		ffn := l.floats("ffn", kernel.TokRows, l.NFF)
		ffnAct := l.act("ffn", kernel.TokRows, l.NFF, down)
		epilogue := kernel.GLU
		if f.plain {
			epilogue = kernel.Apply
		}
		l.add(kernel.Matmul{Dst: ffn, Act: act, Parts: parts, Epilogue: epilogue, Fn: f.fn})
		l.add(kernel.ToAct{Act: ffnAct, Src: ffn, Cols: l.NFF})
		l.result(ffnAct, kernel.Part{Matrix: down, Bias: l.optional(l.blk+"ffn_down.bias", c.NEmbd)}, f.post)
	}
	return h
}
