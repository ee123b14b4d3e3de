package nn

import "github.com/quern-llm/quern/go/kernel"

// RecurrentUnits reads the sizes of recurrent units with real gates, and which layers have them in place of attention:
// their NHeadKV is 0.
func (k *Keys) RecurrentUnits() {
	c := k.Config
	c.NTap = k.Int("ssm.conv_kernel", 2, MaxTap)
	c.LRU = LRU{Width: k.Int("ssm.inner_size", 1, MaxEmbd), NHead: k.Int("ssm.group_count", 1, MaxHead)}
	if n := c.LRU; n.Width%(n.NHead*kernel.Panel) != 0 {
		k.Fail("ssm.inner_size", "%d, want a multiple of %d for each of the %d groups", n.Width, kernel.Panel, n.NHead)
	}
	recurrent := k.Layered("attention.recurrent_layers", func(il int) bool { return il%3 != 2 })
	for il := range c.Layers {
		if recurrent(il) {
			c.Layers[il].NHeadKV = 0
		}
	}
}

// RecurrentUnit is lru_out(h * gelu(lru_y(input))) (De et al. 2024, "Griffin"), where h is a linear recurrence over
// conv(lru_x(input)), each of whose columns has a gate for what comes in and one for how much decays: products with a
// matrix for each group of columns.
func (l Layer) RecurrentUnit() Sublayer {
	c, n := l.Config, l.Config.LRU
	each := n.Width / n.NHead
	y, x := l.Matrix("lru_y.weight", c.NEmbd, n.Width), l.Matrix("lru_x.weight", c.NEmbd, n.Width)
	input, decay := l.matrices("lru_input_gate.weight", each, each, n.NHead), l.matrices("lru_decay_gate.weight", each, each, n.NHead)
	out := l.Matrix("lru_out.weight", n.Width, c.NEmbd)
	return Sublayer{In: []kernel.Matrix{y, x}, Run: func(act kernel.Act) {
		width := kernel.Pad(n.Width)
		beside, src := l.Floats("lru.y", kernel.TokRows, width), l.Floats("lru.x", kernel.TokRows, width)
		in, gates := l.Floats("lru.in", kernel.TokRows, width), l.Floats("lru.gates", kernel.TokRows, 3*width)
		l.Add(kernel.Matmul{
			Dst: beside, Act: l.Only(act, y), Parts: []kernel.Part{{Matrix: y, Bias: l.optional("lru_y.bias", n.Width)}},
			Epilogue: kernel.Apply, Fn: c.fn(kernel.GELU, false),
		})
		l.Add(kernel.Matmul{
			Dst: src, Act: l.Only(act, x), Parts: []kernel.Part{{Matrix: x, Bias: l.optional("lru_x.bias", n.Width)}},
		})
		group, offset := l.state(recurrent(kernel.ConvBytes(n.Width, c.NTap)))
		l.Add(kernel.Conv{
			Dst: in, Src: src, Cols: n.Width, Taps: c.NTap, Group: group, Offset: offset,
			Weight: l.Vector("lru_conv1d.weight", c.NTap, n.Width), Bias: l.optional("lru_conv1d.bias", n.Width),
		})
		heads := kernel.Spread{N: n.NHead, Step: each}
		groups := l.groupAct(n.NHead, each, input)
		for kind, buf := range l.groupAct(n.NHead, each, decay) {
			groups[kind] = buf
		}
		l.Add(kernel.ToAct{Act: groups, Src: in, Rows: kernel.HeadRows, Cols: each, Heads: heads})
		for i, gate := range []struct {
			name string
			m    kernel.Matrix
		}{{"lru_input_gate.bias", input}, {"lru_decay_gate.bias", decay}} {
			l.Add(kernel.Matmul{
				Dst: gates, Act: l.Only(groups, gate.m), Rows: kernel.HeadRows, Heads: heads,
				Parts: []kernel.Part{{Matrix: gate.m, Bias: l.optional(gate.name, each, n.NHead), Col: i * width}},
			})
		}
		// what comes in, and the logarithms of decays: rates times gates
		l.Add(kernel.Gate{Dst: in, Src: gates, Cols: n.Width, Fn: kernel.Sigmoid})
		none := l.constants("lru.none", n.Width, func(int) float64 { return 0 })
		l.Add(kernel.NormRows{
			Dst: gates, DstCol: 2 * width, Src: gates, SrcCol: width, Cols: n.Width, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
			Weight: none, Bias: l.Vector("lru_a", n.Width),
		})
		l.Add(kernel.Gate{Dst: gates, DstCol: 2 * width, Src: gates, SrcCol: width, Cols: n.Width, Fn: kernel.Sigmoid})
		group, offset = l.state(recurrent(kernel.LRUBytes(n.Width)))
		l.Add(kernel.LRU{
			Dst: src, Src: in, Decay: gates, DecayCol: 2 * width, Cols: n.Width, Group: group, Offset: offset,
		})
		l.Add(kernel.Gate{Dst: src, Src: beside, Cols: n.Width, Fn: kernel.NoFn})
		outAct := l.Act("lru.out", kernel.TokRows, n.Width, out)
		l.Add(kernel.ToAct{Act: outAct, Src: src, Cols: n.Width})
		l.result(outAct, kernel.Part{Matrix: out, Bias: l.optional("lru_out.bias", c.NEmbd)}, "")
	}}
}
