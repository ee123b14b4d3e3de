package convert

var arcee = Family{
	Arch:  "arcee",
	Names: "ArceeForCausalLM",
	Rules: ends.And(pairs, dense),
	Keys:  commonKeys,
	Extra: llama3Factors,
}
