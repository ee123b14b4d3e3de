package family

import "github.com/quern-llm/quern/go/convert/lang"

var hyperclovax = lang.Family{
	Arch:  "hyperclovax",
	Names: "HyperCLOVAXForCausalLM",
	Rules: lang.Rules{
		{"post_norm1", "post_attention_norm", nil},
		{"post_norm2", "post_ffw_norm", nil},
	}.And(ends, attention, dense),
	Settings: graniteSettings,
}
