package family

import "github.com/quern-llm/quern/go/convert/lang"

var qwen3vl = lang.Family{
	Arch:  "qwen3vl",
	Names: "Qwen3VLForConditionalGeneration",
	Rules: ends.And(attention, dense),
	Keys:  deepstack,
}

var qwen3vlmoe = lang.Family{
	Arch:  "qwen3vlmoe",
	Names: "Qwen3VLMoeForConditionalGeneration",
	Rules: lang.Rules{ // the matrices of its experts are transposed
		{"mlp.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight", lang.Then(lang.Transpose, lang.Halves)},
		{"mlp.experts.down_proj", "ffn_down_exps.weight", lang.Transpose},
	}.And(ends, attention, dense, mixture),
	Settings: expertSettings,
	Keys:     deepstack,
}

// deepstack sets how many layers take embeddings of images. Text models do not use them, but the key is needed.
func deepstack(k *lang.Keys) {
	v := k.Within("vision_config")
	k.N("n_deepstack_layers", len(v.List("deepstack_visual_indexes")))
	k.Take(v)
}
