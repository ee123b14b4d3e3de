package family

import "github.com/quern-llm/quern/go/convert/lang"

var llama = lang.Family{
	Arch:  "llama",
	Names: "LlamaForCausalLM LLaMAForCausalLM LlamaModel",
	Rules: ends.And(pairs, dense, blockSparse),
	Keys:  commonKeys,
}

// mistral is Llama with windows, and as Mixtral with experts.
var mistral = lang.Family{
	Arch:  "llama",
	Names: "MistralForCausalLM MixtralForCausalLM",
	Rules: llama.Rules,
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		windowed(k)
	},
}

// helium is Llama whose checkpoints rotate neighbours, as GGUF has it.
var helium = lang.Family{
	Arch:  "llama",
	Names: "HeliumForCausalLM",
	Rules: ends.And(attention, dense),
	Keys:  commonKeys,
}
