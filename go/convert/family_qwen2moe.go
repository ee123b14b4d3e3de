package convert

var qwen2moe = family{
	arch:     "qwen2moe",
	names:    "Qwen2MoeForCausalLM",
	rules:    ends.And(attention, dense, mixture),
	settings: expertSettings,
}
