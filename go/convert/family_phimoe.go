package convert

var phimoe = Family{
	Arch:  "phimoe",
	Names: "PhiMoEForCausalLM",
	Rules: ends.And(attention, dense, blockSparse),
	Keys:  phi3Keys,
	Extra: phi3Factors,
}
