package arch

import (
	"fmt"
	"slices"

	. "github.com/quern-llm/quern/go/model/nn"
)

// laguna is Laguna: the result of attention times the softplus of a number for each head, or for each channel; sigmoid
// routing with a correction of the choice, a shared expert, dense first layers. In some models three layers of four
// have a window, with more heads and rotations of their own, over all of a head and without YaRN.
var laguna = Arch{
	Name: "laguna",
	config: func(k *Keys) {
		sigmoidMixture(k, false)
		if k.IntOr("attention.sliding_window", 0, 0, MaxCtx) > 0 {
			k.WindowsIn(AllButFirst(4), AllButFirst)
			k.WindowRope(k.Config.Layers[0].Rope.Base)
			k.RotatedInWindows(nil)
		}
		headGates(k)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			a := Attention{QKNorm: NormHead, Gate: GateChannel, Softplus: true}
			if l.HeadGates {
				a.Gate = GateHead
			}
			l.Residual("attn_norm", l.Attention(a))
			l.Mixture("ffn_norm", Experts{})
		})
		b.End("output_norm")
	},
}

// headGates takes from the tensors in which layers the gate of the attention has a number for each head.
func headGates(k *Keys) {
	for il := range k.Config.Layers {
		l := &k.Config.Layers[il]
		t, ok := k.File.Tensor(fmt.Sprintf("blk.%d.attn_gate.weight", il))
		l.HeadGates = ok && slices.Equal(t.Dims, []uint64{uint64(k.Config.NEmbd), uint64(l.NHead)})
	}
}
