package convert

var jais2 = Family{
	Arch:  "jais2",
	Names: "Jais2ForCausalLM",
	Rules: ends.And(attention, dense),
	Keys:  func(k *Keys) { rotating(k, 1) },
}
