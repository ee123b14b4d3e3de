package convert

var phimoe = family{
	arch:  "phimoe",
	names: "PhiMoEForCausalLM",
	rules: ends.And(attention, dense, blockSparse),
	keys:  phi3Keys,
	extra: phi3Factors,
}
