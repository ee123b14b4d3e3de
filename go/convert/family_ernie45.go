package convert

var ernie45 = family{
	arch:  "ernie4_5",
	names: "Ernie4_5ForCausalLM Ernie4_5_ForCausalLM",
	rules: ends.And(attention, dense), // which has its channels in pairs
}
