package family

import (
	"slices"

	"github.com/quern-llm/quern/go/convert/lang"
)

var llama4 = lang.Family{
	Arch:  "llama4",
	Names: "Llama4ForCausalLM Llama4ForConditionalGeneration",
	Rules: lang.Rules{
		{"post_attention_layernorm", "ffn_norm", nil},
		{"feed_forward.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight",
			lang.Then(lang.Transpose, lang.Halves)},
		{"feed_forward.experts.down_proj", "ffn_down_exps.weight", lang.Transpose},
		{"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp", nil},
		{"feed_forward.shared_expert.up_proj", "ffn_up_shexp", nil},
		{"feed_forward.shared_expert.down_proj", "ffn_down_shexp", nil},
	}.And(feedForward, ends, attention), // its checkpoints rotate neighbouring channels, as GGUF does
	Settings: lang.Settings{
		{"feed_forward_length", 'n', "intermediate_size_mlp"},
		{"expert_feed_forward_length", 'n', "intermediate_size"},
		{"interleave_moe_layer_step", 'n', "interleave_moe_layer_step"},
	},
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		if k.Has("layer_types") && !slices.Contains(k.TypesOf("full_attention"), false) {
			k.N("attention.sliding_window", 0) // there are no chunks either
		}
	},
}
