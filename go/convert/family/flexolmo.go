package family

import "github.com/quern-llm/quern/go/convert/lang"

var flexOlmo = lang.Family{
	Arch:     "flex_olmo",
	Names:    "FlexOlmoForCausalLM",
	Rules:    around.And(ends, attention, mixture),
	Settings: lang.Settings{{"expert_weights_norm", 'b', "norm_topk_prob"}},
}
