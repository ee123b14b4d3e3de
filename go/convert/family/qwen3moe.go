package family

import "github.com/quern-llm/quern/go/convert/lang"

var qwen3moe = lang.Family{
	Arch:     "qwen3moe",
	Names:    "Qwen3MoeForCausalLM",
	Rules:    ends.And(attention, dense, mixture),
	Settings: expertSettings,
	Keys: func(k *lang.Keys) {
		windowed(k)
		k.B("expert_weights_norm", k.Flag("norm_topk_prob"))
	},
}
