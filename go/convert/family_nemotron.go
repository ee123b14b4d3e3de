package convert

var nemotron = family{
	arch:  "nemotron",
	names: "NemotronForCausalLM",
	rules: rules{
		{"input_layernorm.weight", "attn_norm.weight", addOne},
		{"post_attention_layernorm.weight", "ffn_norm.weight", addOne},
		{"norm.weight", "output_norm.weight", addOne},
	}.And(ends, attention, dense),
	keys: func(k *keys) {
		vocabSize(k)
		rotating(k, 0.5)
		k.f("attention.layer_norm_epsilon", k.number("layer_norm_eps layer_norm_epsilon norm_epsilon norm_eps"))
		k.drop("attention.layer_norm_rms_epsilon")
		if !k.ropeOf("full_attention").has("factor") {
			k.set("rope.scaling.type", "none")
		}
	},
}
