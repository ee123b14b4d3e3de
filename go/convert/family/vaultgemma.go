package family

import "github.com/quern-llm/quern/go/convert/lang"

var vaultgemma = lang.Family{
	Arch:       "vaultgemma",
	Names:      "VaultGemmaForCausalLM",
	Rules:      gemma2.Rules,
	Settings:   gemma2.Settings,
	Keys:       gemma2.Keys,
	Tied:       true,
	Vocab:      noSpace,
	Activation: "gelu_new",
}
