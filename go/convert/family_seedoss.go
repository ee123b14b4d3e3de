package convert

import "slices"

var seedoss = family{
	arch:  "seed_oss",
	names: "SeedOssForCausalLM",
	rules: slices.Concat([]rule{{"post_attention_layernorm", "post_attention_norm", nil}}, ends, attention, dense),
}
