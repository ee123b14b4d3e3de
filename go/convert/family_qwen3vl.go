package convert

var qwen3vl = family{
	arch:  "qwen3vl",
	names: "Qwen3VLForConditionalGeneration",
	rules: ends.And(attention, dense),
	keys:  deepstack,
}

var qwen3vlmoe = family{
	arch:  "qwen3vlmoe",
	names: "Qwen3VLMoeForConditionalGeneration",
	rules: rules{ // whose experts are the other way round
		{"mlp.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight", then(transpose, halves)},
		{"mlp.experts.down_proj", "ffn_down_exps.weight", transpose},
	}.And(ends, attention, dense, mixture),
	settings: expertSettings,
	keys:     deepstack,
}

// deepstack sets how many layers are given parts of images: none of texts, but the key is read.
func deepstack(k *keys) {
	v := k.within("vision_config")
	k.n("n_deepstack_layers", len(v.list("deepstack_visual_indexes")))
	k.take(v)
}
