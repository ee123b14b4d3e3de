package convert

var llama = Family{
	Arch:  "llama",
	Names: "LlamaForCausalLM LLaMAForCausalLM LlamaModel MistralForCausalLM MixtralForCausalLM",
	Rules: ends.And(pairs, dense, blockSparse),
	Keys:  commonKeys,
	Extra: llama3Factors,
}
