package convert

var arcee = family{
	arch:  "arcee",
	names: "ArceeForCausalLM",
	rules: ends.And(pairs, dense),
	keys:  commonKeys,
	extra: llama3Factors,
}
