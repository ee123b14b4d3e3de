package family

import "github.com/quern-llm/quern/go/convert/lang"

var deepseekOCR = lang.Family{
	Arch:     "deepseek2-ocr",
	Names:    "DeepseekOCRForCausalLM",
	Rules:    ends.And(attention, dense, mixture),
	Settings: routedSettings,
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		k.F("attention.layer_norm_rms_epsilon", k.NumberOr("rms_norm_eps", 1e-6))
		k.Want("use_mla", "false")
		k.Drop("expert_group_count", "expert_group_used_count")
	},
	Skip: []string{"model.sam_model.", "model.projector.", "model.view_seperator", "model.image_newline"},
}
