package arch

import . "github.com/quern-llm/quern/go/model/nn"

// qwen3vl is Qwen 3 VL: Qwen 3, whose rotations have sections for time, height and width of pictures, in turns. Rows of
// pictures have columns for the first layers too.
var qwen3vl = Arch{Name: "qwen3vl", config: seeing(qwen3.config), build: qwen3.build}

// qwen3vlmoe is Qwen 3 VL with experts.
var qwen3vlmoe = Arch{Name: "qwen3vlmoe", config: seeing(qwen3moe.config), build: qwen3moe.build}

func seeing(config func(k *Keys)) func(k *Keys) {
	return func(k *Keys) {
		config(k)
		k.Sections(true)
		k.DeepStack()
	}
}
