package convert

var maincoder = family{
	arch:  "maincoder",
	names: "MaincoderForCausalLM",
	rules: ends.And(attention, dense), // whose channels are in pairs
}
