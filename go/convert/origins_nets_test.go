package convert

import (
	"fmt"
	"maps"
	"math"
	"strings"
)

// noteHF is names of dots3-note's layers: norms have the factor of what they normalise.
func noteHF(layers, width int) string {
	var b strings.Builder
	for il := range layers {
		rank := 48
		if il%4 == 0 {
			rank = 32
		}
		fmt.Fprintf(&b, "model.layers.%d.self_attn.kv_a_layernorm blk.%d.attn_kv_a_norm over:%v\n", il, il, math.Sqrt(float64(width)/float64(rank)))
	}
	return b.String()
}

func init() {
	maps.Copy(origins, map[string]origin{
		"dots3note": {
			config: sized("Dots3NoteForCausalLM", 8, 32, 96, 8, 8, 128, `"rms_norm_eps": 1e-6, "q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32,
"swa_num_attention_heads": 4, "swa_q_lora_rank": 32, "swa_kv_lora_rank": 48, "swa_qk_nope_head_dim": 16, "swa_qk_rope_head_dim": 16, "swa_v_head_dim": 16, "rope_theta": 8000000,
"swa_rope_theta": 10000, "sliding_window_size": 16, "index_n_heads": 16, "index_head_dim": 64, "index_topk": 24, "n_routed_experts": 8, "num_experts_per_tok": 3,
"moe_intermediate_size": 32, "n_shared_experts": 1, "first_k_dense_replace": 1, "routed_scaling_factor": 2.5, "norm_topk_prob": true, "scoring_func": "sigmoid", "n_group": 1,
"topk_group": 1, "apply_mla_qkv_lora_rescale": true, "k_rope_only_layernorm": true, "layer_types": [`+oneOfFour(8)+`]`),
			differ: "vocab_size",
			names: noteHF(8, 32) + latentHF + indexHF + `
.self_attn.k_rope_only_layernorm attn_k_norm
.self_attn.g_proj attn_gate
`,
		},
		"bailingmoe3": {
			config: sized("BailingMoeV3ForCausalLM", 8, 32, 96, 2, 2, 128, `"head_dim": 32, "rms_norm_eps": 1e-6, "rope_theta": 6000000, "layer_group_size": 4, "q_lora_rank": 32, "kv_lora_rank": 32,
"qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "short_conv_kernel_size": 4, "no_kda_lora": true, "kda_safe_gate": true, "kda_lower_bound": -5,
"gated_attention_proj_granularity_type": "head_wise", "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 32,
"num_shared_experts": 1, "first_k_dense_replace": 1, "routed_scaling_factor": 2.5, "norm_topk_prob": true, "score_function": "sigmoid", "n_group": 4, "topk_group": 2,
"num_nextn_predict_layers": 1`),
			names: strings.ReplaceAll(latentHF, "self_attn", "attention") + `
model.word_embeddings token_embd
.attention.q_proj attn_q
.attention.k_proj attn_k
.attention.v_proj attn_v
.attention.q_conv1d.weight= ssm_conv1d_q.weight
.attention.k_conv1d.weight= ssm_conv1d_k.weight
.attention.v_conv1d.weight= ssm_conv1d_v.weight
.attention.A_log= ssm_a ln flat
.attention.dt_bias= ssm_dt.bias
.attention.f_proj ssm_f_a
.attention.b_proj ssm_beta
.attention.g_proj ssm_g_a
.attention.g_proj attn_gate
.attention.o_norm ssm_norm
7>.attention.dense attn_output
.attention.o_proj attn_output
.mlp.gate.expert_bias= exp_probs_b.bias
.eh_proj nextn.eh_proj
.enorm nextn.enorm
.hnorm nextn.hnorm
.final_layernorm layer_output_norm
`,
		},
		"qwen4exp": {
			config: `{"architectures": ["Qwen4ExpForConditionalGeneration"], "text_config": {"num_hidden_layers": 8, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
"head_dim": 32, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-6, "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32,
"shared_expert_intermediate_size": 32, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32, "linear_num_key_heads": 2,
"linear_num_value_heads": 4, "full_attention_interval": 4, "hc_count": 4, "hc_lowrank": 32, "indexer_n_heads": 4, "indexer_head_dim": 32, "indexer_budget": 128,
"indexer_compress_ratio": 4, "ple_layer_ids": [2], "ngram_size": 3, "heads_per_ngram": 2, "ple_conv_kernel_size": 4, "split_ngram_parts": 4, "eos_token_id": [1, 511],
"mtp_num_hidden_layers": 1,
"rope_parameters": {"rope_theta": 10000000, "rope_type": "default", "partial_rotary_factor": 0.5, "mrope_section": [3, 3, 2]}}}`,
			layers: "model.language_model.layers.#.",
			integers: map[string]string{
				"layer_multipliers": "qwen4exp.ple.layer_multipliers", "ngram_heads_offsets": "qwen4exp.ple.head_offsets",
				"ngram_heads_vocab_sizes": "qwen4exp.ple.head_vocab_sizes",
			},
			prefix: "model.language_model.layers.1.ple.ple_embedding.",
			names: within("model.language_model", "lm_head", deltaHF+tiledHF+sharedHF) + `
.mlp.experts.gate_up_proj= ffn_gate_exps.weight+ffn_up_exps.weight halves
.mlp.experts.down_proj= ffn_down_exps.weight
model.language_model.hyper_connection_mixer.hc_norm output_hc_norm less:1
model.language_model.hyper_connection_mixer.input_mix_weight_down output_hc_down
model.language_model.hyper_connection_mixer.input_mix_weight_up output_hc_up
.attn_hyper_connection.hc_norm hc_attn_norm less:1
.attn_hyper_connection.input_mix_weight_down hc_attn_down
.attn_hyper_connection.input_mix_weight_up hc_attn_up
.attn_hyper_connection.block_inject_weight hc_attn_inject
.mlp_hyper_connection.hc_norm hc_ffn_norm less:1
.mlp_hyper_connection.input_mix_weight_down hc_ffn_down
.mlp_hyper_connection.input_mix_weight_up hc_ffn_up
.mlp_hyper_connection.block_inject_weight hc_ffn_inject
.self_attn.indexer.index_qk_proj indexer.q_proj+indexer.k_proj halves
.self_attn.indexer.q_layernorm indexer.q_norm less:1
.self_attn.indexer.k_layernorm indexer.k_norm less:1
.ple.key_proj ple_key
.ple.value_proj ple_value
.ple.conv1d.weight= ple_conv1d.weight conv
.ple.norm_conv ple_norm_conv less:1
.ple.norm_key ple_norm_key less:1
.ple.norm_query ple_norm_query less:1
model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_*= per_layer_token_embd.weight shards:4
`,
		},
		"hy_v4": {
			config: sized("HYV4ForCausalLM", 4, 32, 96, 4, 4, 128, `"rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 32,
"qk_rope_head_dim": 16, "v_head_dim": 32, "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "norm_topk_prob": true, "routed_scaling_factor": 2.5, "swiglu_limit": 1.5, "index_n_heads": 16, "index_head_dim": 64,
"index_topk": 24, "indexer_types": ["full", "shared", "full", "shared"], "hc_mult": 4, "hc_eps": 1e-6, "hc_magnitude": 1.5`),
			differ: "vocab_size",
			names: latentHF + indexHF + `
.self_attn.linear_gate attn_gate
.self_attn.learnable_sink_param= attn_sinks.weight
.hc_attn_layer.hc_pre.hc_base= hc_attn_base.weight
.hc_attn_layer.hc_pre.hc_fn= hc_attn_fn.weight
.hc_attn_layer.hc_pre.hc_scale= hc_attn_scale.weight
.hc_mlp_layer.hc_pre.hc_base= hc_ffn_base.weight
.hc_mlp_layer.hc_pre.hc_fn= hc_ffn_fn.weight
.hc_mlp_layer.hc_pre.hc_scale= hc_ffn_scale.weight
model.hc_head.hc_head_base= output_hc_base.weight
model.hc_head.hc_head_fn= output_hc_fn.weight
model.hc_head.hc_head_scale= output_hc_scale.weight
.mlp.experts.gate_up_proj= ffn_gate_exps.weight+ffn_up_exps.weight halves
.mlp.experts.down_proj= ffn_down_exps.weight
`,
		},
		"minimax-m3": {
			config: `{"architectures": ["MiniMaxM3SparseForConditionalGeneration"], "text_config": ` + sized("MiniMaxM3SparseForCausalLM", 5, 64, 32, 4, 2, 128, `"dense_intermediate_size": 96,
"head_dim": 32, "rotary_dim": 16, "rms_norm_eps": 1e-6, "rope_theta": 5000000, "num_local_experts": 8, "num_experts_per_tok": 3, "n_shared_experts": 1, "use_gemma_norm": true,
"routed_scaling_factor": 2.0, "scoring_func": "sigmoid", "moe_layer_freq": [0, 0, 1, 1, 1], "swiglu_alpha": 1.702, "swiglu_limit": 7.0, "qk_norm_type": "per_head",
"sparse_attention_config": {"sparse_index_dim": 32, "sparse_num_index_heads": 2, "sparse_topk_blocks": 3, "sparse_block_size": 8, "sparse_score_type": "max", "sparse_init_block": 0,
"sparse_local_block": 1}`) + `}`,
			layers: "language_model.model.layers.#.",
			names: within("language_model.model", "language_model.lm_head", plusOneHF+`
.self_attn.q_norm.weight= attn_q_norm.weight less:1
.self_attn.k_norm.weight= attn_k_norm.weight less:1
.self_attn.index_q_proj indexer.q_proj
.self_attn.index_k_proj indexer.k_proj
.self_attn.index_q_norm.weight= indexer.q_norm.weight less:1
.self_attn.index_k_norm.weight= indexer.k_norm.weight less:1
.block_sparse_moe.shared_experts.gate_proj ffn_gate_shexp
.block_sparse_moe.shared_experts.up_proj ffn_up_shexp
.block_sparse_moe.shared_experts.down_proj ffn_down_shexp
`+sparseHF),
		},
		"kimi-k3": {
			config: `{"architectures": ["KimiK3ForConditionalGeneration"], "text_config": ` + sized("KimiLinearForCausalLM", 8, 32, 96, 2, 2, 128, `"hidden_act": "situ",
"activation_situ_beta": 1.5, "activation_situ_linear_beta": 2.5, "rms_norm_eps": 1e-5, "q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32,
"mla_use_nope": true, "num_experts": 8, "num_experts_per_token": 3, "moe_intermediate_size": 32, "num_shared_experts": 2, "first_k_dense_replace": 1, "routed_scaling_factor": 2.446,
"moe_renormalize": true, "moe_router_activation_func": "sigmoid", "routed_expert_hidden_size": 32, "attn_res_block_size": 3,
"linear_attn_config": {"full_attn_layers": [4, 7, 8], "short_conv_kernel_size": 4, "head_dim": 32, "num_heads": 2, "gate_lower_bound": -5}`) + `}`,
			layers: "language_model.model.layers.#.", differ: "vocab_size",
			names: within("language_model.model", "language_model.lm_head", latentHF+sparseHF+`
.self_attn.q_conv1d.weight= ssm_conv1d_q.weight
.self_attn.k_conv1d.weight= ssm_conv1d_k.weight
.self_attn.v_conv1d.weight= ssm_conv1d_v.weight
.self_attn.A_log= ssm_a log
.self_attn.dt_bias= ssm_dt.bias
.self_attn.f_a_proj ssm_f_a
.self_attn.f_b_proj ssm_f_b
.self_attn.g_proj ssm_g
.self_attn.g_proj attn_gate
.self_attn.b_proj ssm_beta
.self_attn.o_norm ssm_norm
.self_attention_res_norm.weight|.self_attention_res_proj.weight= attn_res_score.weight factors
.mlp_res_norm.weight|.mlp_res_proj.weight= ffn_res_score.weight factors
language_model.model.output_attn_res_norm.weight|language_model.model.output_attn_res_proj.weight= output_res_score.weight factors
.block_sparse_moe.gate.e_score_correction_bias= exp_probs_b.bias
.block_sparse_moe.routed_expert_down_proj ffn_routed_down
.block_sparse_moe.routed_expert_up_proj ffn_routed_up
.block_sparse_moe.routed_expert_norm ffn_routed_norm
.block_sparse_moe.shared_experts.gate_proj ffn_gate_shexp
.block_sparse_moe.shared_experts.up_proj ffn_up_shexp
.block_sparse_moe.shared_experts.down_proj ffn_down_shexp
`),
		},
		"deepseek4": {
			config: sized("DeepseekV4ForCausalLM", 6, 32, 64, 4, 1, 512, `"head_dim": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000, "qk_rope_head_dim": 32, "q_lora_rank": 32, "o_lora_rank": 32,
"o_groups": 2, "compress_ratios": [0, 0, 4, 128, 4, 128, 0], "compress_rope_theta": 160000, "sliding_window": 16, "n_routed_experts": 8, "num_experts_per_tok": 3,
"moe_intermediate_size": 32, "n_shared_experts": 1, "scoring_func": "sqrtsoftplus", "norm_topk_prob": true, "routed_scaling_factor": 1.5, "index_n_heads": 16,
"index_head_dim": 64, "index_topk": 8, "swiglu_limit": 1.5, "hc_mult": 4, "hc_sinkhorn_iters": 3, "hc_eps": 1e-6, "num_hash_layers": 1, "num_nextn_predict_layers": 1`),
			layers: "layers.#.", differ: "swiglu_clamp_shexp embedding_length_out",
			names: `
embed token_embd
norm output_norm
head output
hc_head_base= output_hc_base.weight
hc_head_fn= output_hc_fn.weight
hc_head_scale= output_hc_scale.weight
.hc_attn_base= hc_attn_base.weight
.hc_attn_fn= hc_attn_fn.weight
.hc_attn_scale= hc_attn_scale.weight
.hc_ffn_base= hc_ffn_base.weight
.hc_ffn_fn= hc_ffn_fn.weight
.hc_ffn_scale= hc_ffn_scale.weight
.attn_norm attn_norm
.ffn_norm ffn_norm
.attn.attn_sink= attn_sinks.weight
.attn.wq_a attn_q_a
.attn.wq_b attn_q_b
.attn.q_norm attn_q_a_norm
.attn.wkv attn_kv
.attn.kv_norm attn_kv_a_norm
.attn.wo_a attn_output_a
.attn.wo_b attn_output_b
.attn.compressor.ape= attn_compressor_ape.weight
.attn.compressor.wkv attn_compressor_kv
.attn.compressor.wgate attn_compressor_gate
.attn.compressor.norm attn_compressor_norm
.attn.indexer.wq_b indexer.attn_q_b
.attn.indexer.weights_proj indexer.proj
.attn.indexer.compressor.ape= indexer_compressor_ape.weight
.attn.indexer.compressor.wkv indexer_compressor_kv
.attn.indexer.compressor.wgate indexer_compressor_gate
.attn.indexer.compressor.norm indexer_compressor_norm
.ffn.gate.weight= ffn_gate_inp.weight
.ffn.gate.bias= exp_probs_b.bias
.ffn.gate.tid2eid= ffn_gate_tid2eid.weight
.ffn.experts.*.w1 ffn_gate_exps
.ffn.experts.*.w2 ffn_down_exps
.ffn.experts.*.w3 ffn_up_exps
.ffn.shared_experts.w1 ffn_gate_shexp
.ffn.shared_experts.w2 ffn_down_shexp
.ffn.shared_experts.w3 ffn_up_shexp
`,
		},
	})
}
