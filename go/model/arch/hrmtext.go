package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// hrmText is HRM-Text (Wang et al. 2025, "Hierarchical Reasoning Model"): two stacks of layers without weights in their
// norms, which run in cycles, each time with keys and values of its own. The low stack makes of its state and of the
// high one a new state, some times, and then the high stack of both one of its own. The logits are those of the high
// state.
//
// Models that were trained to read a prompt both ways (hrm.prefix_lm) are given prompts that they read forward, as
// llama.cpp gives them, and transformers where nothing says which tokens are the prompt.
var hrmText = Arch{
	Name: "hrm_text",
	config: func(k *Keys) {
		c := k.Config
		k.Dense(kernel.RopeNeox)
		c.BareNorms = true
		c.EmbedScale = float32(k.FloatOr("embedding_scale", 1, 1e-6, 1e6))
		n := Cycles{
			Each: k.Int("hrm.layers_per_stack", 1, MaxLayer),
			High: k.Int("hrm.h_cycles", 1, MaxLayer),
			Low:  k.Int("hrm.l_cycles", 1, MaxLayer),
		}
		k.BoolOr("hrm.prefix_lm", false)
		if all := n.Each * n.High * (n.Low + 1); all != len(c.Layers) {
			k.Fail("block_count", "%d, want %d: %d cycles of %d runs of %d layers", len(c.Layers), all, n.High, n.Low+1,
				n.Each)
		}
		c.Cycles = n
	},
	build: func(b *Builder) {
		c, n := b.Config, b.Config.Cycles
		low, high := b.Floats("low", kernel.TokRows, c.NEmbd), b.Floats("high", kernel.TokRows, c.NEmbd)
		state := func(dst, src kernel.Buf, kind kernel.NormKind, to kernel.Epilogue) {
			b.Add(kernel.NormRows{
				Dst: dst, Src: src, Cols: c.NEmbd, Segs: 1, Kind: kind, Eps: c.Eps, Scale: 1,
				Epilogue: to,
			})
		}
		b.Begin(func() {
			first := b.Table("hrm.z_l_init", c.NEmbd, 1)
			b.Add(kernel.Embed{Dst: low, Table: first, By: kernel.First, Scale: 1})
			state(high, b.X(), kernel.NoNorm, kernel.Store)
		})
		b.Layers(func(l Layer) {
			run, at := l.Index/n.Each, l.Index%n.Each
			own, of := low, at // the state that this run makes, and the layer in the file
			if run%(n.Low+1) == n.Low {
				own, of = high, n.Each+at
			}
			l = l.WithTensorsOf(of)
			if at == 0 {
				state(b.X(), high, kernel.NoNorm, kernel.Store)
				state(b.X(), low, kernel.NoNorm, kernel.Add)
			}
			l.Residual("attn_norm", l.Attention(Attention{Gate: GateChannel}))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{}))
			switch {
			case l.Index == len(c.Layers)-1:
				state(b.X(), b.X(), kernel.RMS, kernel.Store)
			case at == n.Each-1:
				state(own, b.X(), kernel.RMS, kernel.Store)
			}
		})
		b.End("")
	},
}
