package convert

import (
	"slices"
	"strings"
)

// routers are mixtures of experts whose settings or names are their own.
var routers = []family{
	{
		arch:  "llama4",
		names: "Llama4ForCausalLM Llama4ForConditionalGeneration",
		rules: slices.Concat([]rule{
			{"post_attention_layernorm", "ffn_norm", nil},
			{"feed_forward.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight", then(transpose, halves)},
			{"feed_forward.experts.down_proj", "ffn_down_exps.weight", transpose},
			{"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp", nil},
			{"feed_forward.shared_expert.up_proj", "ffn_up_shexp", nil},
			{"feed_forward.shared_expert.down_proj", "ffn_down_shexp", nil},
		}, feedForward, ends, attention), // whose channels are in pairs
		settings: []setting{
			{"feed_forward_length", 'n', "intermediate_size_mlp"},
			{"expert_feed_forward_length", 'n', "intermediate_size"},
			{"interleave_moe_layer_step", 'n', "interleave_moe_layer_step"},
		},
		keys: func(k *keys) {
			commonKeys(k)
			if k.has("layer_types") && !slices.Contains(k.typesOf("full_attention"), false) {
				k.n("attention.sliding_window", 0) // not even chunks
			}
		},
		extra: llama3Factors,
	},
	{
		arch:  "hunyuan-moe",
		names: "HunYuanMoEV1ForCausalLM",
		rules: with(slices.Concat(ends, attention, dense, mixture),
			rule{"self_attn.query_layernorm", "attn_q_norm", nil},
			rule{"self_attn.key_layernorm", "attn_k_norm", nil},
			rule{"mlp.gate.wg", "ffn_gate_inp", nil}),
		settings: []setting{{"expert_shared_feed_forward_length", 'n', "intermediate_size"}},
		keys: func(k *keys) {
			k.alike("expert_used_count", "moe_topk num_experts_per_tok")
			k.alike("expert_feed_forward_length", "moe_intermediate_size")
			k.alike("expert_shared_count", "num_shared_expert")
			stretched(k)
		},
	},
	{
		arch:  "hy_v3",
		names: "HYV3ForCausalLM",
		rules: with(slices.Concat(predicting, ends, attention, dense, mixture),
			rule{"mlp.router.gate", "ffn_gate_inp", nil},
			rule{"mlp.expert_bias", "exp_probs_b", nil},
			rule{"final_layernorm", "nextn.shared_head_norm", nil}),
		settings: []setting{{"expert_feed_forward_length", 'n', "moe_intermediate_size expert_hidden_dim"}},
		keys: func(k *keys) {
			k.n("expert_shared_feed_forward_length", k.count("moe_intermediate_size expert_hidden_dim")*k.countOr("num_shared_experts", 1))
			norm, set := k.m["route_norm"].(bool)
			k.b("expert_weights_norm", norm || !set)
			k.f("expert_weights_scale", k.numberOr("router_scaling_factor", 1))
			k.n("expert_gating_func", 2)
			further(k)
		},
	},
	{
		arch:  "afmoe",
		names: "AfmoeForCausalLM",
		rules: with(slices.Concat(ends, attention, dense, mixture),
			rule{"self_attn.gate_proj", "attn_gate", nil},
			rule{"post_attention_layernorm", "post_attention_norm", nil},
			rule{"pre_mlp_layernorm", "ffn_norm", nil},
			rule{"post_mlp_layernorm", "post_ffw_norm", nil},
			rule{"mlp.router.gate", "ffn_gate_inp", nil},
			rule{"mlp.expert_bias", "exp_probs_b.bias", nil}),
		settings: []setting{
			{"expert_shared_count", 'n', "num_shared_experts"},
			{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
			{"leading_dense_block_count", 'n', "num_dense_layers"},
			{"expert_weights_norm", 'b', "route_norm"},
			{"expert_weights_scale", 'f', "route_scale"},
			{"attention.sliding_window", 'n', "sliding_window"},
		},
		keys: func(k *keys) {
			commonKeys(k)
			k.gating("")
		},
	},
	{
		arch:  "bailingmoe",
		names: "BailingMoeForCausalLM",
		rules: with(slices.Concat(bailing, ends, dense, mixture),
			rule{"attention.query_key_value", "attn_q attn_k attn_v", then(packed, each3(permute((*config).heads), permute((*config).headsKV), nil))}),
		settings: routedSettings,
		keys: func(k *keys) {
			unscaled(k)
			k.want("norm_head", "false")
		},
	},
	{
		arch:     "exaone-moe",
		names:    "ExaoneMoEForCausalLM ExaoneMoeForCausalLM",
		rules:    with(slices.Concat(predicting, ends, attention, dense, mixture), rule{"mlp.e_score_correction_bias", "exp_probs_b.bias", nil}),
		settings: slices.Concat(routedSettings, []setting{{"attention.sliding_window", 'n', "sliding_window"}}),
		keys: func(k *keys) {
			commonKeys(k)
			k.n("leading_dense_block_count", k.countOr("first_k_dense_replace first_last_k_dense_replace", 0))
			k.n("expert_shared_feed_forward_length", k.count("moe_intermediate_size")*k.countOr("num_shared_experts", 1))
			k.set("rope.scaling.type", "none")
			k.gating("sigmoid")
			windows := k.typesOf("sliding_attention")
			further(k)
			windows = append(windows, make([]bool, min(k.countOr("num_nextn_predict_layers", 0), mostNext))...)
			k.bs("attention.sliding_window_pattern", windows)
		},
		rename: nextOfQwen,
	},
	{
		arch:     "mellum",
		names:    "MellumForCausalLM",
		rules:    slices.Concat(ends, attention, mixture, dense),
		settings: []setting{{"expert_feed_forward_length", 'n', "moe_intermediate_size"}},
		keys: func(k *keys) {
			if on, set := k.m["use_sliding_window"].(bool); k.has("sliding_window") && (on || !set) {
				k.n("attention.sliding_window", k.count("sliding_window"))
				k.bs("attention.sliding_window_pattern", k.typesOf("sliding_attention"))
			}
		},
	},
	{
		arch:  "mimo2",
		names: "MiMoV2FlashForCausalLM MiMoV2ForCausalLM",
		rules: with(slices.Concat(predicting, ends, attention, dense, mixture),
			rule{"self_attn.attention_sink_bias", "attn_sinks.weight", nil},
			rule{"pre_mlp_layernorm", "ffn_norm", nil}, // of layers that predict tokens further on
			rule{"final_layernorm", "nextn.shared_head_norm", nil}),
		settings: []setting{
			{"expert_count", 'n', "n_routed_experts"},
			{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
			{"attention.sliding_window", 'n', "sliding_window"},
			{"attention.value_length", 'n', "v_head_dim"},
			{"attention.value_scale", 'f', "attention_value_scale"},
		},
		keys: func(k *keys) {
			rotating(k, 1)
			k.f("attention.layer_norm_rms_epsilon", k.numberOr("layernorm_epsilon rms_norm_eps", 1e-5))
			windows := make([]bool, k.layers())
			kinds := k.config.list("hybrid_layer_pattern")
			if len(kinds) != len(windows) {
				k.fail("hybrid_layer_pattern names %d layers of %d", len(kinds), len(windows))
			}
			for i := range min(len(kinds), len(windows)) {
				windows[i] = kinds[i] == 1.0
			}
			nextKeys(k)
			windows = append(windows, slices.Repeat([]bool{true}, min(k.countOr(nextLayers, 0), mostNext))...)
			k.ns("attention.head_count_kv", where(windows, k.count("swa_num_key_value_heads"), k.headsKV()))
			k.ns("attention.sliding_window_pattern", where(windows, 1, 0))
			k.drop("expert_group_count", "expert_group_used_count")
		},
		rename:  nextOfQwen,
		stripes: mimoStripes,
		skip:    []string{"speech_embeddings."},
	},
	{
		arch:  "dbrx",
		names: "DbrxForCausalLM",
		rules: []rule{
			{"wte", "token_embd", nil},
			{"norm_f", "output_norm", nil},
			{"lm_head", "output", nil},
			{"norm_attn_norm.norm_1", "attn_norm", nil},
			{"norm_attn_norm.norm_2", "attn_output_norm", nil},
			{"norm_attn_norm.attn.Wqkv", "attn_qkv", nil},
			{"norm_attn_norm.attn.out_proj", "attn_output", nil},
			{"ffn.router.layer", "ffn_gate_inp", nil},
			{"ffn.experts.mlp.w1", "ffn_gate_exps.weight", byExpert},
			{"ffn.experts.mlp.v1", "ffn_up_exps.weight", byExpert},
			{"ffn.experts.mlp.w2", "ffn_down_exps.weight", then(byExpert, transpose)},
		},
		keys: func(k *keys) {
			a, f := k.within("attn_config"), k.within("ffn_config")
			k.n("context_length", k.count("max_seq_len"))
			k.n("feed_forward_length", f.count("ffn_hidden_size"))
			k.n("attention.head_count_kv", a.count("kv_n_heads"))
			k.f("rope.freq_base", a.number("rope_theta"))
			k.f("attention.clamp_kqv", a.number("clip_qkv"))
			k.n("expert_count", f.count("moe_num_experts"))
			k.n("expert_used_count", f.count("moe_top_k"))
			k.f("attention.layer_norm_epsilon", 1e-5)
			k.take(a)
			k.take(f)
		},
	},
}

// mimoStripes says how the queries, keys and values of MiMo V2.5 were cut: for as many machines as layers without a window have
// key-value heads, whatever those of the layer are.
func mimoStripes(m *Model, name string) stripes {
	if !strings.HasSuffix(name, ".self_attn.qkv_proj.weight") {
		return stripes{}
	}
	c := m.config
	shared, kinds := c.headsKV(), c.list("hybrid_layer_pattern")
	if il := parse(nextOfQwen(c, plain(name)), nil).layer; il >= len(kinds) || il >= 0 && kinds[il] == 1.0 {
		shared = c.count("swa_num_key_value_heads")
	}
	return stripes{uint64(c.headsKV()), []uint64{uint64(c.heads() * c.headDim()), uint64(shared * c.headDim()), uint64(shared * c.count("v_head_dim"))}}
}

// bailing is the attention of Ling.
var bailing = []rule{
	{"word_embeddings", "token_embd", nil},
	{"attention.dense", "attn_output", nil},
	{"input_layernorm", "attn_norm", nil},
}

// byExpert takes apart what the experts have one below the other.
var byExpert = one(func(c *config, v view) (view, error) {
	rows, each := v.rows()
	f := c.within("ffn_config")
	n := uint64(max(f.countOr("moe_num_experts", c.experts()), 1))
	c.take(f)
	return v.as(n, rows/n, each)
})

// alike sets a key to the number that a list has for each layer, which has to be the same one.
func (k *keys) alike(key, names string) {
	v, name := k.find(names)
	list, ok := v.([]any)
	if !ok {
		k.n(key, k.count(names))
		return
	}
	all := k.integers(name, list)
	for _, n := range all {
		if n != all[0] {
			k.fail("%s differs between layers, %d and %d; want one for all", name, all[0], n)
			return
		}
	}
	if len(all) > 0 {
		k.n(key, int(all[0]))
	}
}

// mostNext is the most layers that predict further tokens.
const mostNext = 64

// further counts layers behind the last, which predict tokens further on.
func further(k *keys) {
	if n := k.countOr("num_nextn_predict_layers", 0); n > mostNext {
		k.fail("num_nextn_predict_layers: %d, want %d at most", n, mostNext)
	} else if n > 0 {
		k.n("nextn_predict_layers", n)
		k.n("block_count", k.layers()+n)
	}
}
