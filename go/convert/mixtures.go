package convert

import "slices"

// mixtures are models whose feed-forward networks are experts.
var mixtures = []family{
	{
		arch:  "gpt-oss",
		names: "GptOssForCausalLM",
		rules: with(slices.Concat(ends, attention, dense),
			rule{"post_attention_layernorm", "post_attention_norm", nil},
			rule{"self_attn.sinks", "attn_sinks.weight", nil},
			rule{"mlp.router", "ffn_gate_inp", nil},
			rule{"mlp.experts.gate_up_proj_blocks mlp.experts.gate_up_proj_scales", "ffn_gate_exps.weight ffn_up_exps.weight", mxfp4Turns},
			rule{"mlp.experts.down_proj_blocks mlp.experts.down_proj_scales", "ffn_down_exps.weight", mxfp4},
			rule{"mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias ffn_up_exps.bias", turnsLast},
			rule{"mlp.experts.down_proj_bias", "ffn_down_exps.bias", nil},
			rule{"mlp.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight", then(transpose, turns)},
			rule{"mlp.experts.down_proj", "ffn_down_exps.weight", transpose}),
		settings: []setting{
			{"attention.sliding_window", 'n', "sliding_window"},
			{"expert_feed_forward_length", 'n', "intermediate_size"},
		},
	},
	{
		arch:     "glm4moe",
		names:    "Glm4MoeForCausalLM",
		rules:    with(slices.Concat(predicting, ends, attention, dense, mixture), rule{"post_attention_layernorm", "post_attention_norm", nil}),
		settings: routedSettings,
		keys: func(k *keys) {
			rotating(k, 0.5)
			k.gating("sigmoid")
			if n := k.countOr("num_nextn_predict_layers", 0); n > 0 {
				k.n("nextn_predict_layers", n)
				k.n("block_count", k.layers()+n)
			}
		},
		vocab: glmVocab,
	},
	{
		arch:  "olmoe",
		names: "OlmoeForCausalLM",
		rules: slices.Concat(ends, attention, dense, mixture),
		keys:  func(k *keys) { k.f("attention.layer_norm_rms_epsilon", k.numberOr("rms_norm_eps", 1e-5)) },
	},
	{
		arch:  "minimax-m2",
		names: "MiniMaxM2ForCausalLM",
		rules: slices.Concat(ends, attention, dense, blockSparse),
		keys: func(k *keys) {
			k.n("expert_feed_forward_length", k.count("intermediate_size"))
			k.n("rope.dimension_count", k.countOr("rotary_dim", k.headDim()))
			k.gating("sigmoid")
		},
	},
	{
		arch:     "dots1",
		names:    "Dots1ForCausalLM",
		rules:    slices.Concat(ends, attention, dense, mixture),
		settings: routedSettings,
		keys:     func(k *keys) { k.gating("") },
	},
	{
		arch:  "ernie4_5-moe",
		names: "Ernie4_5_MoeForCausalLM",
		rules: with(slices.Concat(ends, attention, dense, mixture),
			rule{"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias", squeeze}),
		settings: []setting{
			{"expert_count", 'n', "moe_num_experts"},
			{"expert_used_count", 'n', "moe_k"},
			{"interleave_moe_layer_step", 'n', "moe_layer_interval"},
			{"leading_dense_block_count", 'n', "moe_layer_start_index"},
			{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
			{"expert_shared_count", 'n', "moe_num_shared_experts"},
		},
		keys: func(k *keys) {
			if n := k.countOr("moe_num_shared_experts", 0); n > 0 {
				k.n("expert_shared_feed_forward_length", n*k.count("moe_intermediate_size"))
			}
		},
		skip: []string{"model.mtp_"},
	},
	{
		arch:  "bailingmoe2",
		names: "BailingMoeV2ForCausalLM",
		rules: with(slices.Concat(predicting, ends, attention, dense, mixture),
			rule{"word_embeddings", "token_embd", nil},
			rule{"attention.query_key_value", "attn_qkv", nil},
			rule{"attention.dense", "attn_output", nil},
			rule{"attention.query_layernorm", "attn_q_norm", nil},
			rule{"attention.key_layernorm", "attn_k_norm", nil},
			rule{"mlp.gate.expert_bias", "exp_probs_b.bias", nil},
			rule{"final_layernorm", "layer_output_norm", nil}),
		settings: routedSettings,
		keys: func(k *keys) {
			rotating(k, 0.5)
			vocabSize(k)
			k.n("expert_shared_feed_forward_length", k.countOr("moe_shared_expert_intermediate_size", k.count("moe_intermediate_size")*k.countOr("num_shared_experts", 1)))
			k.gating("")
			if n := k.countOr("num_nextn_predict_layers", 0); n > 0 {
				k.n("nextn_predict_layers", n)
				k.n("block_count", k.layers()+n)
			}
		},
	},
}
