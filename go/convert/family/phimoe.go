package family

import "github.com/quern-llm/quern/go/convert/lang"

var phimoe = lang.Family{
	Arch:  "phimoe",
	Names: "PhiMoEForCausalLM",
	Rules: ends.And(attention, dense, blockSparse),
	Keys:  phi3Keys,
}
