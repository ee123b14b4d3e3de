package convert

import "slices"

var arcee = family{
	arch:  "arcee",
	names: "ArceeForCausalLM",
	rules: slices.Concat(ends, pairs, dense),
	keys:  commonKeys,
	extra: llama3Factors,
}
