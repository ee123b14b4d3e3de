package convert

var qwen3moe = Family{
	Arch:     "qwen3moe",
	Names:    "Qwen3MoeForCausalLM",
	Rules:    ends.And(attention, dense, mixture),
	Settings: expertSettings,
}
