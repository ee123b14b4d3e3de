package convert

import "slices"

var nanbeige = family{
	arch:     "nanbeige",
	names:    "NanbeigeForCausalLM",
	rules:    slices.Concat(ends, pairs, dense),
	settings: []setting{{"num_loops", 'n', "num_loops"}, {"skip_loop_final_norm", 'b', "skip_loop_final_norm"}},
	keys:     commonKeys,
	extra:    llama3Factors,
}
