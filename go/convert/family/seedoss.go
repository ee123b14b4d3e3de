package family

import "github.com/quern-llm/quern/go/convert/lang"

var seedoss = lang.Family{
	Arch:  "seed_oss",
	Names: "SeedOssForCausalLM",
	Rules: lang.Rules{{"post_attention_layernorm", "post_attention_norm", nil}}.And(ends, attention, dense),
}
