package family

import "github.com/quern-llm/quern/go/convert/lang"

var olmoe = lang.Family{
	Arch:  "olmoe",
	Names: "OlmoeForCausalLM",
	Rules: ends.And(attention, dense, mixture),
	Settings: lang.Settings{
		{"expert_weights_norm", 'b', "norm_topk_prob"},
	},
	Keys: func(k *lang.Keys) {
		k.F("attention.layer_norm_rms_epsilon", k.NumberOr("rms_norm_eps", 1e-5))
		if k.Has("clip_qkv") {
			k.Fail("clip_qkv: limits after the norms of queries and keys are not computed")
		}
	},
}
