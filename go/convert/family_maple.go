package convert

import "slices"

var maple = family{
	arch:  "maple",
	names: "MapleForCausalLM",
	rules: ends.And(attention, dense, mixture),
	settings: expertSettings.And(settings{
		{"attention.sliding_window", 'n', "sliding_window"},
	}),
	keys: func(k *keys) {
		vocabSize(k)
		rotating(k, 1)
		k.want("hidden_act", "silu")
		k.want("norm_topk_prob", "true")
		k.want("nope_on_global_attention", "true")
		k.want("num_shared_experts", "0")
		k.n("rope.dimension_count_swa", int(float64(k.headDim())*k.partial(1)))
		k.bs("attention.sliding_window_pattern", k.typesOf("sliding_attention"))
		k.set("swiglu_clamp_exp", slices.Repeat([]float32{7}, k.layers())) // what the model's own code has as a constant
	},
}
