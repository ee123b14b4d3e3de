package convert

import (
	"slices"
	"strings"
)

// newest are families of 2025 and 2026 whose names or settings are their own.
var newest = []family{
	{
		arch:  "grovemoe",
		names: "GroveMoeForCausalLM modeling_grove_moe.GroveMoeForCausalLM",
		rules: slices.Concat([]rule{
			{"mlp.chunk_experts.*.gate_proj", "ffn_gate_chexps", nil},
			{"mlp.chunk_experts.*.up_proj", "ffn_up_chexps", nil},
			{"mlp.chunk_experts.*.down_proj", "ffn_down_chexps", nil},
		}, ends, attention, dense, mixture),
		settings: expertSettings,
		finish: func(m *Model, k *keys) { // what the models' own code has as constants
			t := m.weights.Tensor("model.layers.0.mlp.chunk_experts.0.up_proj.weight")
			if t == nil || len(t.Shape) != 2 {
				k.fail("layer 0 has no matrix mlp.chunk_experts.0.up_proj")
				return
			}
			k.n("expert_chunk_feed_forward_length", int(t.Shape[0]))
			k.n("experts_per_group", groveGroup)
			k.f("expert_group_scale", 0.05)
		},
		count: func(c *config, name string) int {
			if strings.Contains(name, "chunk_experts") {
				return c.experts() / groveGroup
			}
			return 0
		},
		skip: []string{".expert_bias"}, // which nothing reads
	},
	{
		arch:  "spark2_5",
		names: "Spark2_5ForCausalLM",
		rules: with(slices.Concat(ends, attention, dense),
			rule{"self_attn.q_k_v_proj", "attn_qkv", nil},
			rule{"self_attn.g_proj", "attn_gate", nil}),
		keys: func(k *keys) {
			k.want("gate_attn_act_mode", "sigmoid")
			k.want("headwise_attn_output_gate", "true")
			k.want("hidden_act", "gelu")
			vocabSize(k)
			windowsApart(k)
		},
	},
	{
		arch:  "laguna",
		names: "LagunaForCausalLM",
		rules: with(slices.Concat(ends, attention, dense, mixture),
			rule{"self_attn.g_proj", "attn_gate", nil},
			rule{"mlp.experts.e_score_correction_bias", "exp_probs_b.bias", nil}),
		settings: slices.Concat(expertSettings, []setting{
			{"attention.head_count", 'n', "num_attention_heads_per_layer"},
			{"expert_weights_scale", 'f', "moe_routed_scaling_factor"},
		}),
		keys: func(k *keys) {
			vocabSize(k)
			windowsApart(k)
			k.b("expert_weights_norm", true)
			k.gating("sigmoid")
			kinds := k.texts("mlp_layer_types")
			lead := slices.IndexFunc(kinds, func(kind string) bool { return kind != "dense" })
			if lead < 0 || slices.Contains(kinds[lead:], "dense") {
				k.fail("mlp_layer_types: want dense layers, and then others")
			}
			k.n("leading_dense_block_count", max(lead, 0))
		},
		vocab: lagunaVocab,
	},
	{
		arch:  "cogvlm",
		names: "CogVLMForCausalLM",
		rules: with(slices.Concat(ends, attention, dense),
			rule{"self_attn.language_expert_query_key_value", "attn_qkv", nil},
			rule{"self_attn.language_expert_dense", "attn_output", nil},
			rule{"mlp.language_mlp.gate_proj", "ffn_gate", nil},
			rule{"mlp.language_mlp.up_proj", "ffn_up", nil},
			rule{"mlp.language_mlp.down_proj", "ffn_down", nil}),
		keys: func(k *keys) {
			vocabSize(k)
			rotating(k, 1)
		},
		skip: []string{"model.vision."},
	},
}

// groveGroup is how many experts of Grove MoE share one beside them.
const groveGroup = 2

// windowsApart sets which layers have a window, where these rotate by settings of their own.
func windowsApart(k *keys) {
	rotating(k, 1)
	if k.countOr("sliding_window", 0) == 0 {
		return
	}
	k.n("attention.sliding_window", k.count("sliding_window"))
	k.bs("attention.sliding_window_pattern", k.typesOf("sliding_attention"))
	k.n("rope.dimension_count_swa", int(float64(k.headDim())*k.windowShare()))
}

// lagunaVocab makes of the text that ends an answer a token that does, which its tokenizer says of none.
func lagunaVocab(_ *Model, v *vocabulary) {
	if end := slices.Index(v.tokens, "</assistant>"); end >= 0 {
		v.types[end] = control
		v.setSpecial("eot", end)
	}
}
