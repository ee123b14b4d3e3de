package convert

var llama = family{
	arch:  "llama",
	names: "LlamaForCausalLM LLaMAForCausalLM LlamaModel MistralForCausalLM MixtralForCausalLM",
	rules: ends.And(pairs, dense, blockSparse),
	keys:  commonKeys,
	extra: llama3Factors,
}
