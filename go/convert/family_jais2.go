package convert

var jais2 = family{
	arch:  "jais2",
	names: "Jais2ForCausalLM",
	rules: ends.And(attention, dense),
	keys:  func(k *keys) { rotating(k, 1) },
}
