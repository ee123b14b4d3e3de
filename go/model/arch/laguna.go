package arch

import (
	"fmt"
	"slices"
)

// laguna is Laguna: the result of attention times the softplus of a number for each head, or for each channel; sigmoid routing with a
// correction of the choice, a shared expert, dense first layers. In some models three layers of four have a window, with more
// heads and rotations of their own, over all of a head and without YaRN.
var laguna = Arch{
	Name: "laguna",
	config: func(k *keys) {
		sigmoidMixture(k, false)
		if k.intOr("attention.sliding_window", 0, 0, maxCtx) > 0 {
			k.windowsIn(allButFirst(4), allButFirst)
			k.windowRope(k.c.Layers[0].Rope.Base)
			k.rotatedInWindows(nil)
		}
		headGates(k)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			a := attention{norm: normHead, gate: gateOwn, soft: true}
			if l.HeadGates {
				a.gate = gateHead
			}
			l.residual("attn_norm", l.attention(a))
			l.mixture("ffn_norm", experts{})
		})
		b.end("output_norm")
	},
}

// headGates takes from the tensors in which layers the gate of the attention has a number for each head.
func headGates(k *keys) {
	for il := range k.c.Layers {
		l := &k.c.Layers[il]
		t, ok := k.f.Tensor(fmt.Sprintf("blk.%d.attn_gate.weight", il))
		l.HeadGates = ok && slices.Equal(t.Dims, []uint64{uint64(k.c.NEmbd), uint64(l.NHead)})
	}
}
