package family

import "github.com/quern-llm/quern/go/convert/lang"

var arcee = lang.Family{
	Arch:       "arcee",
	Names:      "ArceeForCausalLM",
	Rules:      ends.And(pairs, dense),
	Keys:       commonKeys,
	Activation: "relu2",
}
