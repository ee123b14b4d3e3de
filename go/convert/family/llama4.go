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
		every, rotates := k.Count("interleave_moe_layer_step"), rotated(k)
		chunked := slices.Clone(rotates)
		if k.Has("layer_types") {
			chunked = k.TypesOf("chunked_attention")
		}
		if k.Null("attention_chunk_size") {
			clear(chunked)
		}
		if !slices.Contains(chunked, true) {
			k.N("attention.sliding_window", 0) // as other programs know that there are no chunks
		}
		k.Bs("quern.attention.chunk_pattern", chunked)
		k.N("quern.attention.chunk_size", k.CountOr("attention_chunk_size", 8192))
		k.Bs("quern.attention.rope_pattern", rotates)
		k.B("quern.attention.qk_norm", k.FlagOr("use_qk_norm", true))
		scale := 0.0
		if k.FlagOr("attn_temperature_tuning", true) {
			scale = k.NumberOr("attn_scale", 0.1)
		}
		k.F("quern.attention.temperature_scale", scale)
		k.N("quern.attention.temperature_length", k.CountOr("floor_scale", 8192))
		for _, il := range k.Integers("moe_layers", k.List("moe_layers")) {
			if (int(il)+1)%max(every, 1) != 0 {
				k.Fail("moe_layers has %d, want every %d. layer", il, every)
			}
		}
	},
}
