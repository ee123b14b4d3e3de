package family

import "github.com/quern-llm/quern/go/convert/lang"

var ernie45 = lang.Family{
	Arch:  "ernie4_5",
	Names: "Ernie4_5ForCausalLM Ernie4_5_ForCausalLM",
	Rules: ends.And(attention, dense), // which has its channels in pairs
}
