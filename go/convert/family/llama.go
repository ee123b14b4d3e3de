package family

import "github.com/quern-llm/quern/go/convert/lang"

var llama = lang.Family{
	Arch:  "llama",
	Names: "LlamaForCausalLM LLaMAForCausalLM LlamaModel MistralForCausalLM MixtralForCausalLM",
	Rules: ends.And(pairs, dense, blockSparse),
	Keys:  commonKeys,
	Extra: llama3Factors,
}
