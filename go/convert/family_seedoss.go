package convert

var seedoss = family{
	arch:  "seed_oss",
	names: "SeedOssForCausalLM",
	rules: rules{{"post_attention_layernorm", "post_attention_norm", nil}}.And(ends, attention, dense),
}
