package arch

import "github.com/quern-llm/quern/go/kernel"

// feedForward adds the dense half: x += down(silu(gate(norm(x))) * up(norm(x))).
func (l layer) feedForward() {
	c := l.cfg
	l.refuse(l.blk + "ffn_gate.bias")
	l.refuse(l.blk + "ffn_up.bias")
	gate := l.matrix(l.blk+"ffn_gate.weight", c.NEmbd, l.NFF)
	up := l.matrix(l.blk+"ffn_up.weight", c.NEmbd, l.NFF)
	down := l.matrix(l.blk+"ffn_down.weight", l.NFF, c.NEmbd)

	act := l.act("embd", kernel.TokRows, c.NEmbd, gate, up)
	ffn := l.floats("ffn", kernel.TokRows, l.NFF)
	ffnAct := l.act("ffn", kernel.TokRows, l.NFF, down)

	l.add(l.norm(act, l.x(), kernel.TokRows, l.blk+"ffn_norm.weight", c.NEmbd))
	l.add(kernel.Matmul{Dst: ffn, Act: act, Parts: []kernel.Part{{Matrix: gate}, {Matrix: up}}, Epilogue: kernel.SwiGLU})
	l.add(kernel.ToAct{Act: ffnAct, Src: ffn, Cols: l.NFF})
	l.add(kernel.Matmul{
		Dst: l.x(), Act: ffnAct, Epilogue: kernel.Add,
		Parts: []kernel.Part{{Matrix: down, Bias: l.optional(l.blk+"ffn_down.bias", c.NEmbd)}},
	})
}
