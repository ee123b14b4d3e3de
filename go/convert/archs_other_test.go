package convert

import (
	"fmt"
	"strings"
)

// otherCheckpoints are more of the same, of families that fewer people use.
var otherCheckpoints = map[string]checkpoint{
	"seed_oss": {config: `{"architectures": ["SeedOssForCausalLM"], ` + layers4 + `, "head_dim": 32, "rms_norm_eps": 1e-6, "rope_theta": 10000000.0}`,
		tensors: endsHF + wideHF + mlpHF + `
0-3: model.layers.#.self_attn.q_proj.bias 128
0-3: model.layers.#.self_attn.k_proj.bias 64
0-3: model.layers.#.self_attn.v_proj.bias 64
`},
	"arcee": {config: `{"architectures": ["ArceeForCausalLM"], ` + layers4 + `, "head_dim": 16, "rms_norm_eps": 1e-5,
"rope_scaling": {"rope_type": "yarn", "factor": 20.0, "original_max_position_embeddings": 1024}}`,
		tensors: endsHF + llamaHF + strings.ReplaceAll(mlpHF, "0-3: model.layers.#.mlp.gate_proj.weight 192 64", "")},
	"ernie4_5": {config: `{"architectures": ["Ernie4_5ForCausalLM"], "tie_word_embeddings": true, ` + layers4 + `, "head_dim": 16, "rms_norm_eps": 1e-5, "rope_theta": 500000.0}`,
		tensors: tiedHF + llamaHF + mlpHF},
	"olmo3": {config: `{"architectures": ["Olmo3ForCausalLM"], "num_hidden_layers": 8, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4,
"max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-6, "rope_theta": 500000, "sliding_window": 16, "layer_types": ["sliding_attention", "sliding_attention",
"sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
"rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 1024, "attention_factor": 1.2}}`,
		tensors: endsHF + olmoLayers("0-7") + strings.NewReplacer("0-3", "0-7", "192", "128").Replace(mlpHF)},
	"olmoe": {config: `{"architectures": ["OlmoeForCausalLM"], "num_hidden_layers": 3, "hidden_size": 64, "intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 4,
"max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "num_experts": 8, "num_experts_per_tok": 2}`,
		tensors: endsHF + strings.ReplaceAll(normsHF+expertsHF, "0-3", "0-2") + heads("0-2", 64, 64) + `
0-2: model.layers.#.self_attn.q_norm.weight 64
0-2: model.layers.#.self_attn.k_norm.weight 64
`},
	"exaone4": {config: `{"architectures": ["Exaone4ForCausalLM"], "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
"max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-5, "rope_theta": 1000000, "sliding_window": null,
"rope_scaling": {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}}`,
		tensors: endsHF + heads("0-3", 64, 32) + strings.ReplaceAll(mlpHF, "192", "128") + `
0-3: model.layers.#.self_attn.q_norm.weight 16
0-3: model.layers.#.self_attn.k_norm.weight 16
0-3: model.layers.#.post_attention_layernorm.weight 64
0-3: model.layers.#.post_feedforward_layernorm.weight 64
`},
	"command-r": {config: `{"architectures": ["CohereForCausalLM"], "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 192, "num_attention_heads": 4, "num_key_value_heads": 4,
"max_position_embeddings": 512, "vocab_size": 512, "layer_norm_eps": 1e-5, "rope_theta": 8000000.0, "logit_scale": 0.0625}`,
		tensors: tiedHF + heads("0-3", 64, 64) + mlpHF + "0-3: model.layers.#.input_layernorm.weight 64"},
	"cohere2": {config: `{"architectures": ["Cohere2ForCausalLM"], "num_hidden_layers": 8, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
"max_position_embeddings": 512, "vocab_size": 512, "layer_norm_eps": 1e-5, "rope_theta": 50000, "logit_scale": 0.25, "sliding_window": 16}`,
		tensors: tiedHF + heads("0-7", 64, 32) + strings.NewReplacer("0-3", "0-7", "192", "128").Replace(mlpHF) + "0-7: model.layers.#.input_layernorm.weight 64"},
	"phimoe": {config: `{"architectures": ["PhiMoEForCausalLM"], "num_hidden_layers": 3, "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
"max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "original_max_position_embeddings": 4096, "num_local_experts": 8, "num_experts_per_tok": 2,
"rope_scaling": {"type": "longrope", "long_factor": [1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5], "short_factor": [1, 1, 1, 1, 1, 1, 1, 1]}}`,
		tensors: biased(`
model.embed_tokens.weight 512 64
0-2: model.layers.#.block_sparse_moe.gate.weight 8 64
0-2: model.layers.#.block_sparse_moe.experts.*.w1.weight 64 64
0-2: model.layers.#.block_sparse_moe.experts.*.w2.weight 64 64
0-2: model.layers.#.block_sparse_moe.experts.*.w3.weight 64 64
`, `
model.norm 64
lm_head 512 64
0-2: model.layers.#.input_layernorm 64
0-2: model.layers.#.post_attention_layernorm 64
0-2: model.layers.#.self_attn.q_proj 64 64
0-2: model.layers.#.self_attn.k_proj 32 64
0-2: model.layers.#.self_attn.v_proj 32 64
0-2: model.layers.#.self_attn.o_proj 64 64
`)},
	"mistral3": {config: `{"architectures": ["Mistral3ForConditionalGeneration"], "text_config": {"model_type": "ministral3", ` + layers4 + `, "head_dim": 32, "rms_norm_eps": 1e-5,
"rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 16.0, "original_max_position_embeddings": 24, "beta_fast": 2.0, "beta_slow": 0.5, "mscale_all_dim": 1.0,
"llama_4_scaling_beta": 0.1}}}`,
		tensors: strings.ReplaceAll(endsHF+wideHF+mlpHF, "model.", "language_model.model.")},
	"hunyuan-dense": {config: `{"architectures": ["HunYuanDenseV1ForCausalLM"], "tie_word_embeddings": true, ` + layers4 + `, "head_dim": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
"num_experts": 1, "rope_scaling": {"type": "dynamic", "alpha": 1000.0}}`,
		tensors: tiedHF + wideHF + mlpHF + `
0-3: model.layers.#.self_attn.query_layernorm.weight 32
0-3: model.layers.#.self_attn.key_layernorm.weight 32
`},
	"ernie4_5-moe": {config: `{"architectures": ["Ernie4_5_MoeForCausalLM"], "tie_word_embeddings": true, "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
"num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "moe_num_experts": 8, "moe_k": 3,
"moe_intermediate_size": 32, "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_interval": 1}`,
		tensors: tiedHF + llamaHF + routed(64) + `
1-3: model.layers.#.mlp.moe_statics.e_score_correction_bias 1 8
`},
	"bailingmoe2": {config: `{"architectures": ["BailingMoeV2ForCausalLM"], "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
"head_dim": 16, "partial_rotary_factor": 0.5, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-6, "rope_theta": 600000, "num_experts": 8, "num_experts_per_tok": 3,
"moe_intermediate_size": 32, "num_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2, "score_function": "sigmoid", "norm_topk_prob": true,
"routed_scaling_factor": 2.5}`,
		tensors: strings.ReplaceAll(endsHF, "embed_tokens", "word_embeddings") + normsHF + routed(32) + `
0-3: model.layers.#.attention.query_key_value.weight 128 64
0-3: model.layers.#.attention.dense.weight 64 64
0-3: model.layers.#.attention.query_layernorm.weight 16
0-3: model.layers.#.attention.key_layernorm.weight 16
1-3: model.layers.#.mlp.gate.expert_bias 8
`},
	"minimax-m2": {config: `{"architectures": ["MiniMaxM2ForCausalLM"], "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
"head_dim": 32, "rotary_dim": 16, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-6, "rope_theta": 5000000, "num_local_experts": 8, "num_experts_per_tok": 3,
"scoring_func": "sigmoid"}`,
		tensors: endsHF + wideHF + `
0-3: model.layers.#.self_attn.q_norm.weight 128
0-3: model.layers.#.self_attn.k_norm.weight 64
0-3: model.layers.#.block_sparse_moe.gate.weight 8 64
0-3: model.layers.#.block_sparse_moe.e_score_correction_bias 8
0-3: model.layers.#.block_sparse_moe.experts.*.w1.weight 32 64
0-3: model.layers.#.block_sparse_moe.experts.*.w2.weight 64 32
0-3: model.layers.#.block_sparse_moe.experts.*.w3.weight 32 64
`},
	"dots1": {config: `{"architectures": ["Dots1ForCausalLM"], "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4,
"head_dim": 16, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000000, "n_routed_experts": 8, "num_experts_per_tok": 3,
"moe_intermediate_size": 32, "n_shared_experts": 2, "first_k_dense_replace": 1, "scoring_func": "sigmoid", "norm_topk_prob": true, "routed_scaling_factor": 2.5}`,
		tensors: endsHF + normsHF + heads("0-3", 64, 64) + routed(64) + `
0-3: model.layers.#.self_attn.q_norm.weight 16
0-3: model.layers.#.self_attn.k_norm.weight 16
1-3: model.layers.#.mlp.gate.e_score_correction_bias 8
`},
	"deepseek": {config: `{"architectures": ["DeepseekForCausalLM"], "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4,
"max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-6, "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "n_shared_experts": 2,
"first_k_dense_replace": 1}`,
		tensors: endsHF + normsHF + heads("0-3", 64, 64) + routed(64)},
	"gemma4": {config: `{"architectures": ["Gemma4ForConditionalGeneration"], "tie_word_embeddings": true, "text_config": {"num_hidden_layers": 15, "hidden_size": 64, "intermediate_size": 64,
"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "global_head_dim": 64, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-6, "sliding_window": 16,
"num_kv_shared_layers": 5, "hidden_size_per_layer_input": 16, "use_double_wide_mlp": true, "final_logit_softcapping": 30.0, "layer_types": [` + windowed(3) + `],
"rope_parameters": {"full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25}, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}}`,
		tensors: strings.ReplaceAll(tiedHF+gemma4Layers("0-14", "0-3,5-8,10-13", "4,9,14", 64, 2, 1, 1, true)+`
0-14: model.layers.#.per_layer_input_gate.weight 16 64
0-14: model.layers.#.per_layer_projection.weight 64 16
0-14: model.layers.#.post_per_layer_input_norm.weight 64
model.embed_tokens_per_layer.weight 512 240
model.per_layer_model_projection.weight 240 64
model.per_layer_projection_norm.weight 16
0-9: model.layers.#.mlp.gate_proj.weight 64 64
0-9: model.layers.#.mlp.up_proj.weight 64 64
0-9: model.layers.#.mlp.down_proj.weight 64 64
10-14: model.layers.#.mlp.gate_proj.weight 128 64
10-14: model.layers.#.mlp.up_proj.weight 128 64
10-14: model.layers.#.mlp.down_proj.weight 64 128
`, "model.", "model.language_model.")},
	"gemma4-moe": {config: `{"architectures": ["Gemma4ForConditionalGeneration"], "tie_word_embeddings": true, "text_config": {"num_hidden_layers": 10, "hidden_size": 32, "intermediate_size": 32,
"num_attention_heads": 4, "num_key_value_heads": 2, "num_global_key_value_heads": 1, "head_dim": 32, "global_head_dim": 64, "max_position_embeddings": 512, "vocab_size": 512,
"rms_norm_eps": 1e-6, "sliding_window": 16, "num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0, "use_double_wide_mlp": false, "final_logit_softcapping": 30.0,
"num_experts": 8, "top_k_experts": 3, "moe_intermediate_size": 32, "layer_types": [` + windowed(2) + `],
"rope_parameters": {"full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25}, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}}`,
		tensors: strings.ReplaceAll(strings.ReplaceAll(tiedHF, "64", "32")+gemma4Layers("0-9", "0-3,5-8", "4,9", 32, 4, 2, 1, false)+`
0-9: model.layers.#.mlp.gate_proj.weight 32 32
0-9: model.layers.#.mlp.up_proj.weight 32 32
0-9: model.layers.#.mlp.down_proj.weight 32 32
0-9: model.layers.#.router.proj.weight 8 32
0-9: model.layers.#.router.scale 32
0-9: model.layers.#.router.per_expert_scale 8
0-9: model.layers.#.experts.gate_up_proj 8 64 32
0-9: model.layers.#.experts.down_proj 8 32 32
0-9: model.layers.#.post_feedforward_layernorm_1.weight 32
0-9: model.layers.#.post_feedforward_layernorm_2.weight 32
0-9: model.layers.#.pre_feedforward_layernorm_2.weight 32
`, "model.", "model.language_model.")},
	"mamba": {config: `{"architectures": ["MambaForCausalLM"], "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 128, "vocab_size": 512, "layer_norm_epsilon": 1e-5,
"conv_kernel": 4, "state_size": 16, "time_step_rank": 32, "tie_word_embeddings": true}`,
		tensors: `
backbone.embeddings.weight 512 64
backbone.norm_f.weight 64
0-3: backbone.layers.#.norm.weight 64
0-3: backbone.layers.#.mixer.A_log 128 16
0-3: backbone.layers.#.mixer.D 128
0-3: backbone.layers.#.mixer.conv1d.weight 128 1 4
0-3: backbone.layers.#.mixer.conv1d.bias 128
0-3: backbone.layers.#.mixer.in_proj.weight 256 64
0-3: backbone.layers.#.mixer.x_proj.weight 64 128
0-3: backbone.layers.#.mixer.dt_proj.weight 128 32
0-3: backbone.layers.#.mixer.dt_proj.bias 128
0-3: backbone.layers.#.mixer.out_proj.weight 64 128
`},
	"nemotron_h_moe": {config: `{"architectures": ["NemotronHForCausalLM"], "num_hidden_layers": 8, "hidden_size": 64, "num_attention_heads": 4,
"num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512, "vocab_size": 512, "layer_norm_epsilon": 1e-5, "hybrid_override_pattern": "ME*EME*E",
"conv_kernel": 4, "ssm_state_size": 32, "n_groups": 2, "mamba_num_heads": 8, "mamba_head_dim": 16, "n_routed_experts": 8, "num_experts_per_tok": 3, "n_shared_experts": 1,
"moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 64, "norm_topk_prob": true, "routed_scaling_factor": 2.5, "n_group": 1, "topk_group": 1}`,
		tensors: `
backbone.embeddings.weight 512 64
backbone.norm_f.weight 64
lm_head.weight 512 64
0-7: backbone.layers.#.norm.weight 64
` + scans("backbone.layers.#.mixer", "0,4", 392, 256, 8, 128) + `
2,6: backbone.layers.#.mixer.q_proj.weight 128 64
2,6: backbone.layers.#.mixer.k_proj.weight 64 64
2,6: backbone.layers.#.mixer.v_proj.weight 64 64
2,6: backbone.layers.#.mixer.o_proj.weight 64 128
1,3,5,7: backbone.layers.#.mixer.gate.weight 8 64
1,3,5,7: backbone.layers.#.mixer.gate.e_score_correction_bias 8
1,3,5,7: backbone.layers.#.mixer.experts.*.up_proj.weight 32 64
1,3,5,7: backbone.layers.#.mixer.experts.*.down_proj.weight 64 32
1,3,5,7: backbone.layers.#.mixer.shared_experts.up_proj.weight 64 64
1,3,5,7: backbone.layers.#.mixer.shared_experts.down_proj.weight 64 64
`},
	"modern-bert": {config: `{"architectures": ["ModernBertForMaskedLM"], "num_hidden_layers": 6, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
"max_position_embeddings": 128, "vocab_size": 512, "norm_eps": 1e-5, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "local_attention": 16, "global_attn_every_n_layers": 3}`,
		tensors: `
model.embeddings.tok_embeddings.weight 512 64
model.embeddings.norm.weight 64
model.final_norm.weight 64
1-5: model.layers.#.attn_norm.weight 64
0-5: model.layers.#.attn.Wqkv.weight 192 64
0-5: model.layers.#.attn.Wo.weight 64 64
0-5: model.layers.#.mlp_norm.weight 64
0-5: model.layers.#.mlp.Wi.weight 192 64
0-5: model.layers.#.mlp.Wo.weight 64 96
head.dense.weight 64 64
head.norm.weight 64
decoder.bias 512
`},
	"bert": {config: `{"architectures": ["BertModel"], "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 256, "num_attention_heads": 4,
"max_position_embeddings": 128, "type_vocab_size": 2, "vocab_size": 1024, "layer_norm_eps": 1e-12}`,
		tensors: bertHF + biased("", `
0-3: encoder.layer.#.attention.self.query 64 64
0-3: encoder.layer.#.attention.self.key 64 64
0-3: encoder.layer.#.attention.self.value 64 64
0-3: encoder.layer.#.attention.output.dense 64 64
0-3: encoder.layer.#.attention.output.LayerNorm 64
0-3: encoder.layer.#.intermediate.dense 256 64
0-3: encoder.layer.#.output.dense 64 256
0-3: encoder.layer.#.output.LayerNorm 64
pooler.dense 64 64
`) + "embeddings.position_embeddings.weight 128 64\nembeddings.LayerNorm.weight 64\nembeddings.LayerNorm.bias 64"},
	"nomic-bert": {config: `{"architectures": ["NomicBertModel"], "n_layer": 4, "n_embd": 64, "n_inner": 192, "n_head": 4, "n_positions": 128, "type_vocab_size": 2, "vocab_size": 1024,
"layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000}`,
		tensors: bertHF + `
emb_ln.weight 64
emb_ln.bias 64
0-3: encoder.layers.#.attn.Wqkv.weight 192 64
0-3: encoder.layers.#.attn.out_proj.weight 64 64
0-3: encoder.layers.#.norm1.weight 64
0-3: encoder.layers.#.norm1.bias 64
0-3: encoder.layers.#.norm2.weight 64
0-3: encoder.layers.#.norm2.bias 64
0-3: encoder.layers.#.mlp.fc11.weight 192 64
0-3: encoder.layers.#.mlp.fc12.weight 192 64
0-3: encoder.layers.#.mlp.fc2.weight 64 192
`},
}

const bertHF = `
embeddings.word_embeddings.weight 1024 64
embeddings.token_type_embeddings.weight 2 64
`

// windowed returns the kinds of layers of so many times four with a window and one without.
func windowed(n int) string {
	one := strings.Repeat(`"sliding_attention", `, 4) + `"full_attention"`
	return strings.TrimSuffix(strings.Repeat(one+", ", n), ", ")
}

// gemma4Layers is attention with heads of 32 in layers with a window, and of 64 in the others, and norms around.
func gemma4Layers(all, window, full string, width, heads, keys, fullKeys int, values bool) string {
	s := fmt.Sprintf(`
%[1]s: model.layers.#.input_layernorm.weight %[4]d
%[1]s: model.layers.#.post_attention_layernorm.weight %[4]d
%[1]s: model.layers.#.pre_feedforward_layernorm.weight %[4]d
%[1]s: model.layers.#.post_feedforward_layernorm.weight %[4]d
%[1]s: model.layers.#.layer_scalar 1
`, all, window, full, width)
	for _, x := range []struct {
		layers      string
		dim, keys   int
		withoutOwnV bool
	}{{window, 32, keys, false}, {full, 64, fullKeys, !values}} {
		s += fmt.Sprintf(`
%[1]s: model.layers.#.self_attn.q_proj.weight %[3]d %[2]d
%[1]s: model.layers.#.self_attn.k_proj.weight %[4]d %[2]d
%[1]s: model.layers.#.self_attn.o_proj.weight %[2]d %[3]d
%[1]s: model.layers.#.self_attn.q_norm.weight %[5]d
%[1]s: model.layers.#.self_attn.k_norm.weight %[5]d
`, x.layers, width, heads*x.dim, x.keys*x.dim, x.dim)
		if !x.withoutOwnV {
			s += fmt.Sprintf("%s: model.layers.#.self_attn.v_proj.weight %d %d\n", x.layers, x.keys*x.dim, width)
		}
	}
	return s
}

// heads is attention without norms.
func heads(layers string, queries, keys int) string {
	return fmt.Sprintf(`
%[1]s: model.layers.#.self_attn.q_proj.weight %[2]d 64
%[1]s: model.layers.#.self_attn.k_proj.weight %[3]d 64
%[1]s: model.layers.#.self_attn.v_proj.weight %[3]d 64
%[1]s: model.layers.#.self_attn.o_proj.weight 64 %[2]d
`, layers, queries, keys)
}

// routed is four layers of which all but the first are experts.
func routed(shared int) string {
	return strings.ReplaceAll(expertsHF, "0-3", "1-3") + fmt.Sprintf(`
0: model.layers.#.mlp.gate_proj.weight 128 64
0: model.layers.#.mlp.up_proj.weight 128 64
0: model.layers.#.mlp.down_proj.weight 64 128
1-3: model.layers.#.mlp.shared_experts.gate_proj.weight %[1]d 64
1-3: model.layers.#.mlp.shared_experts.up_proj.weight %[1]d 64
1-3: model.layers.#.mlp.shared_experts.down_proj.weight 64 %[1]d
`, shared)
}
