package arch

import . "github.com/quern-llm/quern/go/model/nn"

// qwen is Qwen 1: biases of queries, keys and values. Its files have twice the width of the
// feed-forward.
var qwen = Arch{
	Name: "qwen",
	config: func(k *Keys) {
		qwen2.config(k)
		for il := range k.Config.Layers {
			l := &k.Config.Layers[il]
			if l.NFF%2 != 0 {
				k.Fail("feed_forward_length", "%d, want an even number", l.NFF)
			}
			l.NFF /= 2
		}
	},
	build: qwen2.build,
}
