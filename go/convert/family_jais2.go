package convert

import "slices"

var jais2 = family{
	arch:  "jais2",
	names: "Jais2ForCausalLM",
	rules: slices.Concat(ends, attention, dense),
	keys:  func(k *keys) { rotating(k, 1) },
}
