package convert

var mistral3 = Family{
	Arch:   "mistral3",
	Names:  "Mistral3ForConditionalGeneration Ministral3ForCausalLM",
	Change: overLatents,
	Rules:  ends.And(pairs, dense),
	Keys: func(k *Keys) {
		commonKeys(k)
		k.Want("model_type", "ministral3", "mistral", "mistral3")
		r := k.RopeOf("full_attention")
		if r.Has("mscale_all_dim") {
			k.F("rope.scaling.yarn_log_multiplier", r.Number("mscale_all_dim"))
		}
		if r.Has("llama_4_scaling_beta") {
			k.F("attention.temperature_scale", r.Number("llama_4_scaling_beta"))
		}
		k.Take(r)
	},
}

// overLatents is Mistral 4 under the name of Mistral 3.
func overLatents(c *Config, f *Family) *Family {
	if c.Text("model_type") != "mistral4" {
		return f
	}
	return &mistral4
}
