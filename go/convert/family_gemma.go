package convert

var gemma = Family{
	Arch:  "gemma",
	Names: "GemmaForCausalLM",
	Rules: PlusOne(ends.And(attention, dense)),
	Skip:  []string{"lm_head."},
	Vocab: noSpace,
}
