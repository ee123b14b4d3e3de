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
			k.n("leading_dense_block_count", k.leading())
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
	{
		arch:  "maple",
		names: "MapleForCausalLM",
		rules: slices.Concat(ends, attention, dense, mixture),
		settings: slices.Concat(expertSettings, []setting{
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
	},
	{
		arch:  "step35",
		names: "Step3p5ForCausalLM",
		rules: plusOne(with(slices.Concat(predicting, ends, attention, dense),
			rule{"self_attn.g_proj", "attn_gate", nil},
			rule{"moe.gate", "ffn_gate_inp", nil},
			rule{"moe.router_bias", "exp_probs_b.bias", nil},
			rule{"moe.gate_proj", "ffn_gate_exps", nil},
			rule{"moe.up_proj", "ffn_up_exps", nil},
			rule{"moe.down_proj", "ffn_down_exps", nil},
			rule{"share_expert.gate_proj", "ffn_gate_shexp", nil},
			rule{"share_expert.up_proj", "ffn_up_shexp", nil},
			rule{"share_expert.down_proj", "ffn_down_shexp", nil})),
		settings: []setting{
			{"attention.sliding_window", 'n', "sliding_window"},
			{"expert_count", 'n', "moe_num_experts"},
			{"expert_used_count", 'n', "moe_top_k"},
			{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
			{"expert_shared_feed_forward_length", 'n', "share_expert_dim"},
			{"expert_weights_scale", 'f', "moe_router_scaling_factor"},
			{"expert_weights_norm", 'b', "norm_expert_weight"},
		},
		keys:   stepKeys,
		change: stepBases,
		extra:  llama3Factors,
		rename: func(_ *config, name string) string { // of layers that predict tokens further on
			name = strings.Replace(name, ".transformer.shared_head.", ".shared_head.", 1)
			return strings.Replace(name, ".shared_head.output.", ".shared_head.head.", 1)
		},
	},
	{
		arch:  "minimax-01",
		names: "MiniMaxText01ForCausalLM MiniMaxM1ForCausalLM",
		rules: with(slices.Concat(ends, attention, dense, blockSparse),
			rule{"self_attn.out_proj", "attn_output", nil},
			rule{"self_attn.output_gate", "attn_gate", nil},
			rule{"self_attn.norm", "attn_norm_2", nil}),
		keys: func(k *keys) {
			k.n("rope.dimension_count", k.countOr("rotary_dim", k.headDim()))
			k.f("residual_scale", k.number("layernorm_full_attention_alpha"))
			for _, half := range []string{"full_attention", "linear_attention", "mlp"} {
				a, b := k.number("layernorm_"+half+"_alpha"), k.number("layernorm_"+half+"_beta")
				if a != k.number("layernorm_full_attention_alpha") || b != 1 {
					k.fail("layernorm_%s_alpha and _beta are %v and %v, want one alpha for all, and 1", half, a, b)
				}
			}
			kinds := k.numbers("attn_type_list")
			if len(kinds) != k.layers() {
				k.fail("attn_type_list names %d layers of %d", len(kinds), k.layers())
			}
			every := slices.Index(kinds, 1) + 1
			for i, kind := range kinds {
				if (kind == 1) != (every > 0 && (i+1)%every == 0) {
					k.fail("attn_type_list: layer %d is not as %s has it, every so many with attention", i, k.arch)
				}
			}
			k.n("full_attention_interval", max(every, 1))
		},
	},
}

// stepBases takes the bases of rotations apart, which Step 3.5 has a list of: one for each layer.
func stepBases(c *config, f *family) *family {
	bases, isList := c.m["rope_theta"].([]any)
	if !isList {
		return f
	}
	delete(c.m, "rope_theta")
	kinds := c.texts("layer_types")
	for i, base := range bases {
		name := "rope_theta"
		if i < len(kinds) && kinds[i] == "sliding_attention" {
			name = "local_rope_theta"
		}
		if was := c.m[name]; was != nil && was != base {
			c.fail("rope_theta has %v and %v for layers of one kind; want one", was, base)
		}
		c.m[name] = base
	}
	return f
}

// stepKeys sets what differs between layers; those that predict tokens further on are listed behind the others.
func stepKeys(k *keys) {
	rotating(k, 1)
	further(k)
	n := k.layers() + min(k.countOr("num_nextn_predict_layers", 0), mostNext)
	windows := make([]bool, n)
	kinds, shares := k.texts("layer_types"), k.numbers("partial_rotary_factors")
	for i := range windows {
		windows[i] = i < len(kinds) && kinds[i] == "sliding_attention"
		if share := where(windows[i:i+1], 2, 1)[0]; i < len(shares) && 2*shares[i] != float32(share) {
			k.fail("partial_rotary_factors has %v for layer %d, want %v", shares[i], i, float32(share)/2)
		}
	}
	other := k.within("attention_other_setting")
	heads, shared := k.heads(), k.countOr("num_attention_groups num_key_value_heads", k.heads())
	k.ns("attention.head_count", where(windows, other.countOr("num_attention_heads", heads), heads))
	k.ns("attention.head_count_kv", where(windows, other.countOr("num_attention_groups", shared), shared))
	k.take(other)
	k.bs("attention.sliding_window_pattern", windows)
	k.f("attention.layer_norm_rms_epsilon", k.numberOr("rms_norm_eps", 1e-5))
	if list, _, _ := strings.Cut(k.text("moe_layers_enum"), ","); list != "" {
		if first, ok := digits(strings.TrimSpace(list)); ok {
			k.n("leading_dense_block_count", first)
		}
	}
	k.want("moe_every_n_layer", "1")
	k.limits("swiglu_clamp_exp", "swiglu_limits", n)
	k.limits("swiglu_clamp_shexp", "swiglu_limits_shared", n)
}

// limits sets a number for each of n layers, of a list in which null stands for none.
func (k *keys) limits(key, name string, n int) {
	list := k.config.list(name)
	if list == nil {
		return
	}
	all := make([]float32, n)
	for i, v := range list[:min(len(list), n)] {
		x, ok := v.(float64)
		if v != nil && !ok {
			k.fail("%s has %.40v, want numbers", name, v)
		}
		all[i] = float32(x)
	}
	k.set(key, all)
}

// leading returns how many layers are dense before those with experts.
func (c *config) leading() int {
	kinds := c.texts("mlp_layer_types")
	lead := slices.IndexFunc(kinds, func(kind string) bool { return kind != "dense" })
	if lead < 0 || slices.Contains(kinds[lead:], "dense") {
		c.fail("mlp_layer_types: want dense layers, and then others")
	}
	return max(lead, 0)
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
