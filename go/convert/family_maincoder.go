package convert

import "slices"

var maincoder = family{
	arch:  "maincoder",
	names: "MaincoderForCausalLM",
	rules: slices.Concat(ends, attention, dense), // whose channels are in pairs
}
