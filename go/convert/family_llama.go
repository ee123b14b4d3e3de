package convert

import "slices"

var llama = family{
	arch:  "llama",
	names: "LlamaForCausalLM LLaMAForCausalLM LlamaModel MistralForCausalLM MixtralForCausalLM",
	rules: slices.Concat(ends, pairs, dense, blockSparse),
	keys:  commonKeys,
	extra: llama3Factors,
}
