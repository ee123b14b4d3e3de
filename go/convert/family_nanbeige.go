package convert

var nanbeige = family{
	arch:     "nanbeige",
	names:    "NanbeigeForCausalLM",
	rules:    ends.And(pairs, dense),
	settings: settings{{"num_loops", 'n', "num_loops"}, {"skip_loop_final_norm", 'b', "skip_loop_final_norm"}},
	keys:     commonKeys,
	extra:    llama3Factors,
}
