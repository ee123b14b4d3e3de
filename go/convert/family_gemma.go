package convert

var gemma = family{
	arch:  "gemma",
	names: "GemmaForCausalLM",
	rules: plusOne(ends.And(attention, dense)),
	skip:  []string{"lm_head."},
	vocab: noSpace,
}
