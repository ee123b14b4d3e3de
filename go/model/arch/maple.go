package arch

// maple is Maple: Qwen 3 with experts, whose functions have limits, windows in the layers that the file says, and no
// rotations in the others.
var maple = Arch{
	Name: "maple",
	config: func(k *keys) {
		qwen3moe.config(k)
		k.windows(allBut(4))
		k.ropeInWindows()
		k.limits()
	},
	build: qwen3moe.build,
}
