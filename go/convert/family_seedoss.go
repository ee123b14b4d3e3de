package convert

var seedoss = Family{
	Arch:  "seed_oss",
	Names: "SeedOssForCausalLM",
	Rules: Rules{{"post_attention_layernorm", "post_attention_norm", nil}}.And(ends, attention, dense),
}
