package projector

import (
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// exaone45 is Qwen2.5-VL's encoder with fewer heads of keys and values (EXAONE 4.5, 2026).
var exaone45 = Kind{
	Name: "exaone4_5",
	config: func(e *Encoder, k *Keys) {
		qwen25vl.config(e, k)
		e.pixelLimits(k, e.MinRows, e.MaxRows)
		for i := range k.Config.Layers {
			l := &k.Config.Layers[i]
			if l.NHeadKV = k.IntOr("attention.head_count_kv", l.NHead, 1, l.NHead); l.NHead%l.NHeadKV != 0 {
				k.Fail("attention.head_count_kv", "%d, want a divisor of the %d heads", l.NHeadKV, l.NHead)
			}
		}
	},
	build: buildQwen2VL,
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = e.sized(p)
		return []Part{{Text: "<vision>"}, {Input: e.windowed(p, e.input(p, 0, nil))}, {Text: "</vision>"}}
	},
}
