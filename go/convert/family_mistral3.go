package convert

var mistral3 = family{
	arch:   "mistral3",
	names:  "Mistral3ForConditionalGeneration Ministral3ForCausalLM",
	change: overLatents,
	rules:  ends.And(pairs, dense),
	keys: func(k *keys) {
		commonKeys(k)
		k.want("model_type", "ministral3", "mistral", "mistral3")
		r := k.ropeOf("full_attention")
		if r.has("mscale_all_dim") {
			k.f("rope.scaling.yarn_log_multiplier", r.number("mscale_all_dim"))
		}
		if r.has("llama_4_scaling_beta") {
			k.f("attention.temperature_scale", r.number("llama_4_scaling_beta"))
		}
		k.take(r)
	},
}

// overLatents is Mistral 4 under the name of Mistral 3.
func overLatents(c *config, f *family) *family {
	if c.text("model_type") != "mistral4" {
		return f
	}
	return &mistral4
}
