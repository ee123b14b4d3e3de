package family

import "github.com/quern-llm/quern/go/convert/lang"

var nemotron = lang.Family{
	Arch:  "nemotron",
	Names: "NemotronForCausalLM",
	Rules: lang.Rules{
		{"input_layernorm.weight", "attn_norm.weight", lang.AddOne},
		{"post_attention_layernorm.weight", "ffn_norm.weight", lang.AddOne},
		{"norm.weight", "output_norm.weight", lang.AddOne},
	}.And(ends, attention, dense),
	Keys: func(k *lang.Keys) {
		vocabSize(k)
		rotating(k, 0.5)
		k.F("attention.layer_norm_epsilon", k.Number("layer_norm_eps layer_norm_epsilon norm_epsilon norm_eps"))
		k.Drop("attention.layer_norm_rms_epsilon")
		if !k.RopeOf("full_attention").Has("factor") {
			k.Set("rope.scaling.type", "none")
		}
	},
	Activation: "relu2",
}
