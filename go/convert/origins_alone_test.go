package convert

import (
	"fmt"
	"maps"
	"strings"
)

// hrmHF is names of HRM's two stacks of so many layers.
func hrmHF(each int) string {
	var b strings.Builder
	for i, stack := range []string{"L", "H"} {
		for il := range each {
			at, blk := fmt.Sprintf("model.%s_module.layers.%d.", stack, il), fmt.Sprintf("blk.%d.", i*each+il)
			fmt.Fprintf(&b, "%sattn.gqkv_proj %sattn_gate+%sattn_q+%sattn_k+%sattn_v halves\n", at, blk, blk, blk, blk)
			fmt.Fprintf(&b, "%sattn.o_proj %sattn_output\n%smlp.gate_up_proj %sffn_gate+%sffn_up halves\n%smlp.down_proj %sffn_down\n", at, blk, at, blk, blk, at, blk)
		}
	}
	return b.String()
}

// gptHF is the names that GPT-2 left to others.
const gptHF = `
transformer.wte token_embd
transformer.ln_f output_norm
.ln_1 attn_norm
.ln_2 ffn_norm
`

func init() {
	maps.Copy(origins, map[string]origin{
		"arctic": {
			config: sized("ArcticForCausalLM", 3, 64, 32, 4, 2, 128, `"rms_norm_eps": 1e-5, "num_local_experts": 4, "num_experts_per_tok": 2`),
			differ: "rope.dimension_count vocab_size",
			names: pairsHF + sparseHF + `
.post_attention_layernorm ffn_norm_exps
.residual_layernorm ffn_norm
.residual_mlp.w1 ffn_gate
.residual_mlp.w2 ffn_down
.residual_mlp.w3 ffn_up
`,
		},
		"codeshell": {
			as: "starcoder2", config: `{"architectures": ["CodeShellForCausalLM"], "n_layer": 4, "n_embd": 64, "n_head": 4, "num_query_groups": 2, "n_positions": 512, "vocab_size": 512,
"layer_norm_epsilon": 1e-5}`,
			layers: "transformer.h.#.", other: `attn_(q|k|v|qkv)\.`, differ: "rope.freq_base rope.scaling.type rope.scaling.factor",
			names: gptHF + ".attn.c_attn attn_q+attn_k+attn_v halves\n.attn.c_proj attn_output\n.mlp.c_fc ffn_up\n.mlp.c_proj ffn_down\n",
		},
		"jais": {
			config: `{"architectures": ["JAISLMHeadModel"], "n_layer": 2, "n_embd": 64, "n_inner": 96, "n_head": 4, "n_positions": 512, "vocab_size": 128, "layer_norm_epsilon": 1e-5,
"activation_function": "swiglu", "position_embedding_type": "alibi", "mup_embeddings_scale": 4, "mup_output_alpha": 2, "mup_width_scale": 0.25, "tie_word_embeddings": false}`,
			layers: "transformer.h.#.",
			names: `
transformer.wte token_embd over:4
lm_head output over:0.5
.attn.c_attn.weight= attn_qkv.weight T
.attn.c_attn.bias= attn_qkv.bias
.attn.c_proj.weight= attn_output.weight T
.attn.c_proj.bias= attn_output.bias
.mlp.c_fc.weight= ffn_up.weight T
.mlp.c_fc.bias= ffn_up.bias
.mlp.c_fc2.weight= ffn_gate.weight T
.mlp.c_fc2.bias= ffn_gate.bias
.mlp.c_proj.weight= ffn_down.weight T
.mlp.c_proj.bias= ffn_down.bias
` + gptHF,
		},
		"refact": {
			config: `{"architectures": ["GPTRefactForCausalLM"], "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 512, "vocab_size": 128, "layer_norm_epsilon": 1e-5}`,
			layers: "transformer.h.#.",
			names:  gptHF + ".attn.q attn_q\n.attn.kv attn_k+attn_v halves\n.attn.c_proj attn_output\n.mlp.gate_up_proj ffn_gate+ffn_up halves\n.mlp.c_proj ffn_down\n",
		},
		"openelm": {
			config: `{"architectures": ["OpenELMForCausalLM"], "num_transformer_layers": 3, "model_dim": 64, "head_dim": 32, "num_query_heads": [2, 3, 4], "num_kv_heads": [1, 1, 2],
"max_context_length": 512, "vocab_size": 128, "rope_freq_constant": 10000}`,
			layers: "transformer.layers.#.", differ: "rope.freq_base",
			names: `
transformer.token_embeddings token_embd
transformer.norm output_norm
.attn_norm attn_norm
.attn.qkv_proj attn_qkv
.attn.q_norm attn_q_norm
.attn.k_norm attn_k_norm
.attn.out_proj attn_output
.ffn_norm ffn_norm
.ffn.proj_1 ffn_gate+ffn_up halves
.ffn.proj_2 ffn_down
`,
		},
		"plm": {
			config: sized("PLMForCausalLM", 2, 64, 128, 2, 2, 128, `"rms_norm_eps": 1e-6, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32`),
			differ: "vocab_size", names: ".self_attn.kv_b_proj attn_kv_b\n" + latentHF,
		},
		"smallthinker": {
			config: sized("SmallThinkerForCausalLM", 5, 64, 0, 4, 2, 128, `"rms_norm_eps": 1e-6, "moe_num_primary_experts": 4, "moe_num_active_primary_experts": 2, "moe_ffn_hidden_size": 32,
"moe_primary_router_apply_softmax": false, "sliding_window_layout": [0, 1, 1, 1, 0], "sliding_window_size": 4096`),
			names: `
.block_sparse_moe.primary_router ffn_gate_inp
.block_sparse_moe.experts.*.gate ffn_gate_exps
.block_sparse_moe.experts.*.up ffn_up_exps
.block_sparse_moe.experts.*.down ffn_down_exps
`,
		},
		"grok": {
			config: sized("GrokForCausalLM", 2, 64, 64, 4, 2, 128, `"rms_norm_eps": 1e-5, "num_local_experts": 4, "num_experts_per_tok": 2, "embedding_multiplier_scale": 4, "output_multiplier_scale": 0.5,
"attn_logit_softcapping": 5, "router_logit_softcapping": 0, "final_logit_softcapping": 6`),
			differ: "router_logit_softcapping",
			names:  ".pre_attn_norm attn_norm\n.post_attn_norm attn_output_norm\n.pre_moe_norm ffn_norm\n.post_moe_norm post_ffw_norm\n" + sparseHF,
		},
		"grok-1": {
			config: sized("Grok1ForCausalLM", 2, 64, 64, 4, 2, 128, `"rms_norm_eps": 1e-5, "num_local_experts": 4, "num_experts_per_tok": 2, "embedding_multiplier_scale": 78.38367176906169,
"output_multiplier_scale": 0.5773502691896257, "attn_output_multiplier": 0.08838834764831845`),
			layers: "transformer.decoder_layer.#.",
			differ: "embedding_scale logit_scale attention.output_scale attn_logit_softcapping router_logit_softcapping", // which old files do not say
			names: `
transformer.in_out_embed token_embd
transformer.rms_norm output_norm
.rms_norm attn_norm
.rms_norm_1 attn_output_norm
.rms_norm_2 ffn_norm
.rms_norm_3 layer_output_norm
.multi_head_attention.query attn_q
.multi_head_attention.key attn_k
.multi_head_attention.value attn_v
.multi_head_attention.linear attn_output
.router ffn_gate_inp
.moe.*.linear ffn_gate_exps
.moe.*.linear_1 ffn_down_exps
.moe.*.linear_v ffn_up_exps
`,
		},
		"chameleon": {
			config: sized("ChameleonForConditionalGeneration", 4, 32, 64, 4, 4, 8256, `"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "swin_norm": false`),
			names:  strings.ReplaceAll(pairsHF, "16", "8") + ".self_attn.q_norm attn_q_norm headpairs\n.self_attn.k_norm attn_k_norm headpairs\n",
		},
		"talkie": {
			config: `{"architectures": ["TalkieForCausalLM"], "n_layer": 4, "n_embd": 64, "n_head": 4, "head_dim": 16, "max_position_embeddings": 512, "vocab_size": 128}`,
			layers: "model.blocks.#.",
			names: `
model.embed token_embd
lm_head= output.weight
lm_head_gain.w_g= key:talkie.logit_scale
.attn.attn_query attn_q backwards:16
.attn.attn_key attn_k backwards:16
.attn.attn_value attn_v
.attn.attn_resid attn_output
.attn.head_gain.head_g= attn_q_norm.weight flat
.attn_gain.a_g= attn_output.scale
.mlp.mlp_gate ffn_gate
.mlp.mlp_linear ffn_up
.mlp.mlp_resid ffn_down
.mlp_gain.a_g= ffn_down.scale
.embed_skip.a_g= layer_output_scale.weight
`,
		},
		"hrm_text": {
			config: sized("HrmTextForCausalLM", 2, 64, 96, 4, 4, 128, `"rms_norm_eps": 1e-6, "rope_theta": 10000.0, "embedding_scale": 4.0, "H_cycles": 2, "L_cycles": 2, "prefix_lm": false`),
			names:  hrmHF(2) + "model.z_L_init= hrm.z_l_init\n",
		},
		"hunyuan_vl": {
			config: sized("HunYuanVLForConditionalGeneration", 2, 64, 96, 4, 2, 128, `"head_dim": 16, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "num_experts": 1,
"rope_scaling": {"type": "xdrope", "alpha": 100.0, "xdrope_section": [4, 2, 2, 0]}`),
			names: ".self_attn.query_layernorm attn_q_norm\n.self_attn.key_layernorm attn_k_norm\n",
		},
		"paddleocr": {
			as: "qwen2", config: `{"architectures": ["PaddleOCRVLForConditionalGeneration"], "tie_word_embeddings": true, ` + layers4 + `, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0}`,
		},
		"nanbeige": {
			config: sized("NanbeigeForCausalLM", 2, 64, 96, 4, 2, 128, `"rms_norm_eps": 1e-5, "num_loops": 3, "skip_loop_final_norm": false`),
			differ: "rope.dimension_count vocab_size", names: pairsHF,
		},
		"cohere2moe": {
			config: sized("Cohere2MoeForCausalLM", 6, 64, 32, 4, 2, 128, `"prefix_dense_intermediate_size": 96, "layer_norm_eps": 1e-5, "sliding_window": 16, "num_experts": 4, "num_experts_per_tok": 2,
"num_shared_experts": 1, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse", "sparse", "sparse"], "norm_topk_prob": true, "logit_scale": 0.5,
"layer_types": ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]`),
			differ: "vocab_size rope.dimension_count rope.scaling.type expert_gating_func attention.sliding_window_pattern",
		},
		"granite_swa": {
			config: sized("GraniteMoeSWAForCausalLM", 4, 64, 32, 4, 2, 128, `"rms_norm_eps": 1e-5, "attention_multiplier": 0.0625, "embedding_multiplier": 12.0, "residual_multiplier": 0.5,
"logits_scaling": 6.0, "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 32, "sliding_window": 16, "layer_rope_theta": [10000, 0, 10000, 0],
"layer_types": ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"]`),
			differ: "vocab_size rope.dimension_count rope.freq_base",
			names: pairsHF + `
.self_attn.sinks= attn_sinks.weight
.block_sparse_moe.router ffn_gate_inp
.block_sparse_moe.experts.gate_up_proj= ffn_gate_exps.weight+ffn_up_exps.weight halves
.block_sparse_moe.experts.down_proj= ffn_down_exps.weight
.shared_mlp.input_linear ffn_up_shexp
.shared_mlp.output_linear ffn_down_shexp
`,
		},
		"eurobert": {
			config: sized("EuroBertForMaskedLM", 3, 64, 96, 4, 2, 128, `"rms_norm_eps": 1e-5, "rope_theta": 250000`), differ: "context_length pooling_type rope.scaling.type",
		},
		"neo-bert": {
			config: `{"architectures": ["NeoBERTLMHead"], "num_hidden_layers": 3, "hidden_size": 64, "intermediate_size": 144, "num_attention_heads": 4, "vocab_size": 128, "norm_eps": 1e-5,
"max_length": 128}`,
			layers: "model.transformer_encoder.#.", differ: "rope.freq_base rope.scaling.type",
			names: `
model.encoder token_embd
model.layer_norm enc.output_norm
.attention_norm attn_norm
.qkv attn_qkv threes
.wo attn_output
.ffn_norm ffn_norm
.ffn.w12 ffn_up
.ffn.w3 ffn_down
`,
		},
		"deepseek2-ocr": {
			config: `{"architectures": ["DeepseekOCRForCausalLM"], "language_config": ` + sized("DeepseekV2ForCausalLM", 3, 64, 96, 4, 4, 128, `"use_mla": false, "n_routed_experts": 4,
"num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1, "first_k_dense_replace": 1, "norm_topk_prob": false`) + `}`,
			differ: "vocab_size rope.dimension_count",
		},
		"maple": {
			config: sized("MapleForCausalLM", 4, 64, 32, 4, 2, 128, `"head_dim": 16, "rms_norm_eps": 1e-6, "hidden_act": "silu", "nope_on_global_attention": true, "rope_theta": 1000000,
"swa_rope_theta": 10000, "sliding_window": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
"layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]`),
			differ: "vocab_size rope.dimension_count rope.dimension_count_swa swiglu_clamp_exp",
		},
		"step35": {
			config: sized("Step3p5ForCausalLM", 8, 32, 96, 4, 0, 128, `"head_dim": 16, "rms_norm_eps": 1e-5, "num_attention_groups": 2, "attention_other_setting": {"num_attention_heads": 6,
"num_attention_groups": 2}, "sliding_window": 16, "moe_num_experts": 8, "moe_top_k": 3, "moe_intermediate_size": 32, "share_expert_dim": 32, "moe_router_scaling_factor": 3.0,
"norm_expert_weight": true, "num_nextn_predict_layers": 1, "swiglu_limits": [0, 0, 0, 0, 0, null, 0.4, 0.4], "swiglu_limits_shared": [0.3, 0, 0, 0, 0, 0, 0, 0.5],
"rope_theta": [5000000, 10000, 10000, 10000, 5000000, 10000, 10000, 10000, 10000], "partial_rotary_factors": [0.5, 1, 1, 1, 0.5, 1, 1, 1, 1],
"rope_scaling": {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 32.0, "original_max_position_embeddings": 8192},
"layer_types": [`+oneOfFour(8)+`, "sliding_attention"]`),
			names: `
model.norm.weight= output_norm.weight less:1
.input_layernorm.weight= attn_norm.weight less:1
.post_attention_layernorm.weight= ffn_norm.weight less:1
.self_attn.q_norm.weight= attn_q_norm.weight less:1
.self_attn.k_norm.weight= attn_k_norm.weight less:1
.self_attn.g_proj attn_gate
.moe.gate ffn_gate_inp
.moe.router_bias= exp_probs_b.bias
.moe.gate_proj ffn_gate_exps
.moe.up_proj ffn_up_exps
.moe.down_proj ffn_down_exps
.share_expert.gate_proj ffn_gate_shexp
.share_expert.up_proj ffn_up_shexp
.share_expert.down_proj ffn_down_shexp
.eh_proj nextn.eh_proj
.enorm.weight= nextn.enorm.weight less:1
.hnorm.weight= nextn.hnorm.weight less:1
.transformer.shared_head.norm.weight= nextn.shared_head_norm.weight less:1
`,
		},
		"minimax-01": {
			config: sized("MiniMaxText01ForCausalLM", 8, 32, 32, 4, 2, 128, `"head_dim": 32, "rotary_dim": 16, "rms_norm_eps": 1e-5, "rope_theta": 10000000, "num_local_experts": 8,
"num_experts_per_tok": 2, "layernorm_full_attention_alpha": 3.556558847427368, "layernorm_full_attention_beta": 1, "layernorm_linear_attention_alpha": 3.556558847427368,
"layernorm_linear_attention_beta": 1, "layernorm_mlp_alpha": 3.556558847427368, "layernorm_mlp_beta": 1, "attn_type_list": [0, 0, 0, 1, 0, 0, 0, 1]`),
			names: sparseHF + `
0>.self_attn.qkv_proj attn_qkv
.self_attn.output_gate attn_gate
.self_attn.norm attn_norm_2
.self_attn.out_proj attn_output
`,
		},
	})
}
