package family

import (
	"slices"

	"github.com/quern-llm/quern/go/convert/lang"
)

var maple = lang.Family{
	Arch:  "maple",
	Names: "MapleForCausalLM",
	Rules: ends.And(attention, dense, mixture),
	Settings: expertSettings.And(lang.Settings{
		{"attention.sliding_window", 'n', "sliding_window"},
	}),
	Keys: func(k *lang.Keys) {
		vocabSize(k)
		rotating(k, 1)
		k.Want("norm_topk_prob", "true")
		k.Want("nope_on_global_attention", "true")
		k.Want("num_shared_experts", "0")
		k.N("rope.dimension_count_swa", int(float64(k.HeadDim())*k.Partial(1)))
		k.Bs("attention.sliding_window_pattern", k.TypesOf("sliding_attention"))
		k.Set("swiglu_clamp_exp", slices.Repeat([]float32{7},
			k.Layers())) // the model's own code has this as a constant
	},
}
