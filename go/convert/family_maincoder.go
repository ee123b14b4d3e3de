package convert

var maincoder = Family{
	Arch:  "maincoder",
	Names: "MaincoderForCausalLM",
	Rules: ends.And(attention, dense), // whose channels are in pairs
}
