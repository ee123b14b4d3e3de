package arch

import . "github.com/quern-llm/quern/go/model/nn"

// maple is Maple: Qwen 3 with experts, whose functions have limits, windows in the layers that the file says, and no
// rotations in the others.
var maple = Arch{
	Name: "maple",
	config: func(k *Keys) {
		qwen3moeKeys(k, "rope.dimension_count_swa") // rope.dimension_count is of the others, and 0
		k.Windows(AllBut(4))
		k.RopeInWindows()
		k.ExpertLimits()
	},
	build: qwen3moe.build,
}
