package family

import "github.com/quern-llm/quern/go/convert/lang"

var phimoe = lang.Family{
	Arch:  "phimoe",
	Names: "PhiMoEForCausalLM PhimoeForCausalLM",
	Rules: ends.And(attention, dense, blockSparse),
	Keys:  phi3Keys,
	Fixed: lang.Fixed{{"router_jitter_noise", "0.01"}}, // how near the largest score others have to be
}
