package convert

var qwen3moe = family{
	arch:     "qwen3moe",
	names:    "Qwen3MoeForCausalLM",
	rules:    ends.And(attention, dense, mixture),
	settings: expertSettings,
}
