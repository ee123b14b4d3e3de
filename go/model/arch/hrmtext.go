package arch

import "github.com/quern-llm/quern/go/kernel"

// hrmText is HRM-Text (Wang et al. 2025, "Hierarchical Reasoning Model"): two stacks of layers without weights in their norms, which run in
// cycles, each time with keys and values of its own. The low stack makes of its state and of the high one a new state, some times, and
// then the high stack of both one of its own. The logits are those of the high state.
//
// Models that were trained to read a prompt both ways (hrm.prefix_lm) are given prompts that they read forward, as
// llama.cpp gives them, and transformers where nothing says which tokens are the prompt.
var hrmText = Arch{
	Name: "hrm_text",
	config: func(k *keys) {
		c := k.c
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
		c.BareNorms = true
		c.EmbedScale = float32(k.floatOr("embedding_scale", 1, 1e-6, 1e6))
		n := Cycles{
			Each: k.int("hrm.layers_per_stack", 1, maxLayer),
			High: k.int("hrm.h_cycles", 1, maxLayer),
			Low:  k.int("hrm.l_cycles", 1, maxLayer),
		}
		k.boolOr("hrm.prefix_lm", false)
		if all := n.Each * n.High * (n.Low + 1); all != len(c.Layers) {
			k.fail("block_count", "%d, want %d: %d cycles of %d runs of %d layers", len(c.Layers), all, n.High, n.Low+1, n.Each)
		}
		c.Cycles = n
	},
	build: func(b *builder) {
		c, n := b.cfg, b.cfg.Cycles
		low, high := b.floats("low", kernel.TokRows, c.NEmbd), b.floats("high", kernel.TokRows, c.NEmbd)
		state := func(dst, src kernel.Buf, kind kernel.NormKind, to kernel.Epilogue) {
			b.add(kernel.NormRows{Dst: dst, Src: src, Cols: c.NEmbd, Segs: 1, Kind: kind, Eps: c.Eps, Scale: 1, Epilogue: to})
		}
		b.begin(func() {
			first := b.table("hrm.z_l_init", c.NEmbd, 1)
			b.add(kernel.Embed{Dst: low, Table: first, By: kernel.First, Scale: 1})
			state(high, b.x(), kernel.NoNorm, kernel.Store)
		})
		b.layers(func(l layer) {
			run, at := l.il/n.Each, l.il%n.Each
			own, of := low, at // the state that this run makes, and the layer in the file
			if run%(n.Low+1) == n.Low {
				own, of = high, n.Each+at
			}
			l = l.withTensorsOf(of)
			if at == 0 {
				state(b.x(), high, kernel.NoNorm, kernel.Store)
				state(b.x(), low, kernel.NoNorm, kernel.Add)
			}
			l.residual("attn_norm", l.attention(attention{gate: gateOwn}))
			l.residual("ffn_norm", l.feedForward(feedForward{}))
			switch {
			case l.il == len(c.Layers)-1:
				state(b.x(), b.x(), kernel.RMS, kernel.Store)
			case at == n.Each-1:
				state(own, b.x(), kernel.RMS, kernel.Store)
			}
		})
		b.end("")
	},
}
