package convert

import "slices"

var gemma = family{
	arch:  "gemma",
	names: "GemmaForCausalLM",
	rules: plusOne(slices.Concat(ends, attention, dense)),
	skip:  []string{"lm_head."},
	vocab: noSpace,
}
