package convert

var qwen2moe = Family{
	Arch:     "qwen2moe",
	Names:    "Qwen2MoeForCausalLM",
	Rules:    ends.And(attention, dense, mixture),
	Settings: expertSettings,
}
