package arch

import . "github.com/quern-llm/quern/go/model/nn"

// qwen2vl is Qwen 2 and 2.5 VL: Qwen 2, whose rotations have sections for time, height and width of pictures.
var qwen2vl = Arch{
	Name: "qwen2vl",
	config: func(k *Keys) {
		qwen2.config(k)
		k.Sections(false)
	},
	build: qwen2.build,
}
