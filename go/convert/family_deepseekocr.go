package convert

var deepseekOCR = family{
	arch:     "deepseek2-ocr",
	names:    "DeepseekOCRForCausalLM",
	rules:    ends.And(attention, dense, mixture),
	settings: routedSettings,
	keys: func(k *keys) {
		commonKeys(k)
		k.f("attention.layer_norm_rms_epsilon", k.numberOr("rms_norm_eps", 1e-6))
		k.want("use_mla", "false")
		k.drop("expert_group_count", "expert_group_used_count")
	},
	skip: []string{"model.sam_model.", "model.projector.", "model.view_seperator", "model.image_newline"},
}
