package convert

import "slices"

var phimoe = family{
	arch:  "phimoe",
	names: "PhiMoEForCausalLM",
	rules: slices.Concat(ends, attention, dense, blockSparse),
	keys:  phi3Keys,
	extra: phi3Factors,
}
