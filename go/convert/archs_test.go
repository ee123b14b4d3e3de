package convert

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
)

// What checkpoints have in common.
const (
	endsHF = `
model.embed_tokens.weight 512 64
model.norm.weight 64
lm_head.weight 512 64
`
	tiedHF = `
model.embed_tokens.weight 512 64
model.norm.weight 64
`
	normsHF = `
0-3: model.layers.#.input_layernorm.weight 64
0-3: model.layers.#.post_attention_layernorm.weight 64
`
	llamaHF = normsHF + `
0-3: model.layers.#.self_attn.q_proj.weight 64 64
0-3: model.layers.#.self_attn.k_proj.weight 32 64
0-3: model.layers.#.self_attn.v_proj.weight 32 64
0-3: model.layers.#.self_attn.o_proj.weight 64 64
`
	wideHF = normsHF + ` 
0-3: model.layers.#.self_attn.q_proj.weight 128 64
0-3: model.layers.#.self_attn.k_proj.weight 64 64
0-3: model.layers.#.self_attn.v_proj.weight 64 64
0-3: model.layers.#.self_attn.o_proj.weight 64 128
`
	headNormsHF = `
0-3: model.layers.#.self_attn.q_norm.weight 32
0-3: model.layers.#.self_attn.k_norm.weight 32
`
	mlpHF = `
0-3: model.layers.#.mlp.gate_proj.weight 192 64
0-3: model.layers.#.mlp.up_proj.weight 192 64
0-3: model.layers.#.mlp.down_proj.weight 64 192
`
	expertsHF = `
0-3: model.layers.#.mlp.gate.weight 8 64
0-3: model.layers.#.mlp.experts.*.gate_proj.weight 32 64
0-3: model.layers.#.mlp.experts.*.up_proj.weight 32 64
0-3: model.layers.#.mlp.experts.*.down_proj.weight 64 32
`
)

// layers4 is what most of the models' settings are.
const layers4 = `"num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 192, "num_attention_heads": 4, "num_key_value_heads": 2,
"max_position_embeddings": 512, "vocab_size": 512`

// checkpoints are small models, in the layout of their family's checkpoints, with the sizes of the files of data/archs: their
// names, their shapes and their keys must come out.
var checkpoints = map[string]checkpoint{
	"llama": {config: `{"architectures": ["LlamaForCausalLM"], ` + layers4 + `, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}}`,
		tensors: endsHF + llamaHF + mlpHF},
	"llama-tied": {config: `{"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": true, "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 192,
"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-5}`,
		tensors: tiedHF + mlpHF + biased(normsHF, `
0-3: model.layers.#.self_attn.q_proj 128 64
0-3: model.layers.#.self_attn.k_proj 32 64
0-3: model.layers.#.self_attn.v_proj 32 64
0-3: model.layers.#.self_attn.o_proj 64 128
`)},
	"qwen2": {config: `{"architectures": ["Qwen2ForCausalLM"], "tie_word_embeddings": true, ` + layers4 + `, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0}`,
		tensors: tiedHF + llamaHF + mlpHF + `
0-3: model.layers.#.self_attn.q_proj.bias 64
0-3: model.layers.#.self_attn.k_proj.bias 32
0-3: model.layers.#.self_attn.v_proj.bias 32
`},
	"qwen3": {config: `{"architectures": ["Qwen3ForCausalLM"], "tie_word_embeddings": true, ` + layers4 + `, "head_dim": 32, "rms_norm_eps": 1e-6, "rope_theta": 1000000}`,
		tensors: tiedHF + wideHF + headNormsHF + mlpHF},
	"qwen3moe": {config: `{"architectures": ["Qwen3MoeForCausalLM"], ` + layers4 + `, "head_dim": 32, "rms_norm_eps": 1e-6, "rope_theta": 1000000,
"num_experts": 8, "num_experts_per_tok": 4, "moe_intermediate_size": 32}`,
		tensors: endsHF + wideHF + headNormsHF + expertsHF},
	"qwen2moe": {config: `{"architectures": ["Qwen2MoeForCausalLM"], "num_hidden_layers": 3, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
"num_key_value_heads": 4, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-6, "rope_theta": 1000000, "num_experts": 8, "num_experts_per_tok": 4,
"moe_intermediate_size": 32, "shared_expert_intermediate_size": 128}`,
		tensors: endsHF + strings.ReplaceAll(normsHF+expertsHF, "0-3", "0-2") + `
0-2: model.layers.#.self_attn.q_proj.weight 64 64
0-2: model.layers.#.self_attn.k_proj.weight 64 64
0-2: model.layers.#.self_attn.v_proj.weight 64 64
0-2: model.layers.#.self_attn.o_proj.weight 64 64
0-2: model.layers.#.self_attn.q_proj.bias 64
0-2: model.layers.#.self_attn.k_proj.bias 64
0-2: model.layers.#.self_attn.v_proj.bias 64
0-2: model.layers.#.mlp.shared_expert.gate_proj.weight 128 64
0-2: model.layers.#.mlp.shared_expert.up_proj.weight 128 64
0-2: model.layers.#.mlp.shared_expert.down_proj.weight 64 128
0-2: model.layers.#.mlp.shared_expert_gate.weight 1 64
`},
	"qwen3vl": {config: `{"architectures": ["Qwen3VLForConditionalGeneration"], "text_config": {` + layers4 + `, "head_dim": 32, "rms_norm_eps": 1e-6,
"rope_theta": 5000000, "rope_scaling": {"rope_type": "default", "mrope_section": [6, 5, 5]}, "tie_word_embeddings": true},
"vision_config": {"deepstack_visual_indexes": [1, 2]}}`,
		tensors: strings.ReplaceAll(tiedHF+wideHF+headNormsHF+mlpHF, "model.", "model.language_model.") + "model.visual.merger.norm.weight 8"},
	"qwen3next": {config: `{"architectures": ["Qwen3NextForCausalLM"], "num_hidden_layers": 8, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4,
"num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000000, "partial_rotary_factor": 0.25,
"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 32,
"linear_value_head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4}`,
		tensors: strings.ReplaceAll(endsHF, "64", "32") + delta(6, "0-2,4-6", "3,7", 32) + sharedExperts("0-7", 32) + `
0-2,4-6: model.layers.#.linear_attn.in_proj_qkvz.weight 384 32
0-2,4-6: model.layers.#.linear_attn.in_proj_ba.weight 8 32
`},
	"qwen35": {config: `{"architectures": ["Qwen3_5ForConditionalGeneration"], "tie_word_embeddings": true, "text_config": {"num_hidden_layers": 8, "hidden_size": 64,
"intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-6,
"rope_parameters": {"rope_theta": 10000000, "rope_type": "default", "partial_rotary_factor": 0.5, "mrope_section": [3, 3, 2]}, "linear_conv_kernel_dim": 4,
"linear_key_head_dim": 32, "linear_value_head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "full_attention_interval": 4, "mtp_num_hidden_layers": 1}}`,
		tensors: strings.ReplaceAll(tiedHF, "model.", "model.language_model.") + strings.ReplaceAll(delta(6, "0-2,4-6", "3,7", 64)+`
0-7: model.layers.#.mlp.gate_proj.weight 128 64
0-7: model.layers.#.mlp.up_proj.weight 128 64
0-7: model.layers.#.mlp.down_proj.weight 64 128
`+splitDelta("0-2,4-6", 64), "model.layers", "model.language_model.layers") + `
mtp.fc.weight 64 128
mtp.norm.weight 64
mtp.pre_fc_norm_embedding.weight 64
mtp.pre_fc_norm_hidden.weight 64
mtp.layers.0.input_layernorm.weight 64
mtp.layers.0.post_attention_layernorm.weight 64
mtp.layers.0.self_attn.q_proj.weight 256 64
mtp.layers.0.self_attn.k_proj.weight 64 64
mtp.layers.0.self_attn.v_proj.weight 64 64
mtp.layers.0.self_attn.o_proj.weight 64 128
mtp.layers.0.self_attn.q_norm.weight 32
mtp.layers.0.self_attn.k_norm.weight 32
mtp.layers.0.mlp.gate_proj.weight 128 64
mtp.layers.0.mlp.up_proj.weight 128 64
mtp.layers.0.mlp.down_proj.weight 64 128
model.visual.x.weight 3
`},
	"qwen35moe": {config: `{"architectures": ["Qwen3_5MoeForConditionalGeneration"], "text_config": {"num_hidden_layers": 8, "hidden_size": 32,
"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-6,
"rope_parameters": {"rope_theta": 10000000, "rope_type": "default", "partial_rotary_factor": 0.5, "mrope_section": [3, 3, 2]}, "linear_conv_kernel_dim": 4,
"linear_key_head_dim": 32, "linear_value_head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "full_attention_interval": 4,
"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32}}`,
		tensors: strings.ReplaceAll(strings.ReplaceAll(endsHF, "64", "32"), "model.", "model.language_model.") + strings.ReplaceAll(delta(6, "0-2,4-6", "3,7", 32)+splitDelta("0-2,4-6", 32)+`
0-7: model.layers.#.mlp.gate.weight 8 32
0-7: model.layers.#.mlp.experts.gate_up_proj 8 64 32
0-7: model.layers.#.mlp.experts.down_proj 8 32 32
0-7: model.layers.#.mlp.shared_expert.gate_proj.weight 32 32
0-7: model.layers.#.mlp.shared_expert.up_proj.weight 32 32
0-7: model.layers.#.mlp.shared_expert.down_proj.weight 32 32
0-7: model.layers.#.mlp.shared_expert_gate.weight 1 32
`, "model.layers", "model.language_model.layers")},
	"gemma": {config: `{"architectures": ["GemmaForCausalLM"], "tie_word_embeddings": true, "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 192,
"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-6}`,
		tensors: tiedHF + strings.NewReplacer("k_proj.weight 64", "k_proj.weight 32", "v_proj.weight 64", "v_proj.weight 32").Replace(wideHF) + mlpHF},
	"gemma2": {config: `{"architectures": ["Gemma2ForCausalLM"], ` + layers4 + `, "head_dim": 32, "rms_norm_eps": 1e-6, "sliding_window": 16,
"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}`,
		tensors: tiedHF + wideHF + mlpHF + `
0-3: model.layers.#.pre_feedforward_layernorm.weight 64
0-3: model.layers.#.post_feedforward_layernorm.weight 64
`},
	"gemma3": {config: `{"architectures": ["Gemma3ForConditionalGeneration"], "text_config": {"num_hidden_layers": 12, "hidden_size": 64, "intermediate_size": 64,
"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-6, "sliding_window": 16,
"rope_theta": 1000000.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}, "vision_config": {}}`,
		tensors: strings.NewReplacer("0-3", "0-11", "192", "64", "model.", "language_model.model.").Replace(tiedHF+wideHF+headNormsHF+mlpHF+`
0-3: model.layers.#.pre_feedforward_layernorm.weight 64
0-3: model.layers.#.post_feedforward_layernorm.weight 64
`) + "vision_tower.vision_model.x.weight 4"},
	"phi3": {config: `{"architectures": ["Phi3ForCausalLM"], ` + layers4 + `, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "original_max_position_embeddings": 4096, "sliding_window": 2047,
"rope_scaling": {"type": "longrope", "long_factor": [1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5], "short_factor": [1, 1, 1, 1, 1, 1, 1, 1]}}`,
		tensors: endsHF + normsHF + `
0-3: model.layers.#.self_attn.qkv_proj.weight 128 64
0-3: model.layers.#.self_attn.o_proj.weight 64 64
0-3: model.layers.#.mlp.gate_up_proj.weight 384 64
0-3: model.layers.#.mlp.down_proj.weight 64 192
`},
	"phi2": {config: `{"architectures": ["PhiForCausalLM"], "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 256, "num_attention_heads": 4,
"max_position_embeddings": 512, "vocab_size": 512, "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.5}`,
		tensors: biased(`
model.embed_tokens.weight 512 64
`, `
model.final_layernorm 64
lm_head 512 64
0-3: model.layers.#.input_layernorm 64
0-3: model.layers.#.self_attn.q_proj 64 64
0-3: model.layers.#.self_attn.k_proj 64 64
0-3: model.layers.#.self_attn.v_proj 64 64
0-3: model.layers.#.self_attn.dense 64 64
0-3: model.layers.#.mlp.fc1 256 64
0-3: model.layers.#.mlp.fc2 64 256
`)},
	"starcoder2": {config: `{"architectures": ["Starcoder2ForCausalLM"], "tie_word_embeddings": true, "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 256,
"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "vocab_size": 512, "norm_epsilon": 1e-5, "rope_theta": 100000}`,
		tensors: biased(`
model.embed_tokens.weight 512 64
`, `
model.norm 64
0-3: model.layers.#.input_layernorm 64
0-3: model.layers.#.post_attention_layernorm 64
0-3: model.layers.#.self_attn.q_proj 64 64
0-3: model.layers.#.self_attn.k_proj 32 64
0-3: model.layers.#.self_attn.v_proj 32 64
0-3: model.layers.#.self_attn.o_proj 64 64
0-3: model.layers.#.mlp.c_fc 256 64
0-3: model.layers.#.mlp.c_proj 64 256
`)},
	"granite": {config: `{"architectures": ["GraniteForCausalLM"], "tie_word_embeddings": false, ` + layers4 + `, "rms_norm_eps": 1e-5, "rope_theta": 10000000.0,
"attention_multiplier": 0.0625, "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 8.0}`,
		tensors: endsHF + llamaHF + mlpHF},
	"granitemoe": {config: `{"architectures": ["GraniteMoeSharedForCausalLM"], "num_hidden_layers": 3, "hidden_size": 64, "intermediate_size": 32, "num_attention_heads": 4,
"num_key_value_heads": 2, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000, "attention_multiplier": 0.0625,
"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 6.0, "num_local_experts": 8, "num_experts_per_tok": 3, "shared_intermediate_size": 64}`,
		tensors: endsHF + strings.ReplaceAll(llamaHF, "0-3", "0-2") + graniteMixture("0-2", 64)},
	"granitehybrid": {config: `{"architectures": ["GraniteMoeHybridForCausalLM"], "num_hidden_layers": 6, "hidden_size": 64, "intermediate_size": 32, "num_attention_heads": 4,
"num_key_value_heads": 2, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000, "position_embedding_type": "nope",
"attention_multiplier": 0.0625, "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 6.0, "num_local_experts": 8, "num_experts_per_tok": 3,
"shared_intermediate_size": 32, "layer_types": ["mamba", "mamba", "attention", "mamba", "mamba", "attention"], "mamba_d_conv": 4, "mamba_d_state": 32, "mamba_n_groups": 1,
"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_expand": 2}`,
		tensors: endsHF + graniteLayers + graniteMixture("0-5", 32)},
	"granitehybrid-dense": {config: `{"architectures": ["GraniteMoeHybridForCausalLM"], "num_hidden_layers": 6, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
"num_key_value_heads": 2, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000, "position_embedding_type": "rope",
"attention_multiplier": 0.0625, "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 6.0, "num_local_experts": 0, "num_experts_per_tok": 0,
"shared_intermediate_size": 128, "layer_types": ["mamba", "mamba", "attention", "mamba", "mamba", "attention"], "mamba_d_conv": 4, "mamba_d_state": 32, "mamba_n_groups": 1,
"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_expand": 2}`,
		tensors: endsHF + graniteLayers + `
0-5: model.layers.#.shared_mlp.input_linear.weight 256 64
0-5: model.layers.#.shared_mlp.output_linear.weight 64 128
`},
	"gpt-oss": {config: `{"architectures": ["GptOssForCausalLM"], "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
"head_dim": 32, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-5, "rope_theta": 150000, "sliding_window": 16, "num_local_experts": 8, "num_experts_per_tok": 4,
"rope_scaling": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 1024}}`,
		tensors: endsHF + wideHF + `
0-3: model.layers.#.self_attn.q_proj.bias 128
0-3: model.layers.#.self_attn.k_proj.bias 64
0-3: model.layers.#.self_attn.v_proj.bias 64
0-3: model.layers.#.self_attn.o_proj.bias 64
0-3: model.layers.#.self_attn.sinks 4
0-3: model.layers.#.mlp.router.weight 8 64
0-3: model.layers.#.mlp.router.bias 8
0-3: model.layers.#.mlp.experts.gate_up_proj 8 64 64
0-3: model.layers.#.mlp.experts.gate_up_proj_bias 8 64
0-3: model.layers.#.mlp.experts.down_proj 8 32 64
0-3: model.layers.#.mlp.experts.down_proj_bias 8 64
`},
	"lfm2": {config: `{"architectures": ["Lfm2ForCausalLM"], "tie_word_embeddings": false, "num_hidden_layers": 8, "hidden_size": 64, "block_ff_dim": 160, "intermediate_size": 160,
"block_auto_adjust_ff_dim": false, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "vocab_size": 512, "norm_eps": 1e-5, "rope_theta": 1000000,
"conv_L_cache": 3, "layer_types": ["conv", "conv", "full_attention", "conv", "conv", "full_attention", "conv", "full_attention"]}`,
		tensors: convolution("0-7", "0,1,3,4,6", "2,5,7") + `
0-7: model.layers.#.feed_forward.w1.weight 160 64
0-7: model.layers.#.feed_forward.w2.weight 64 160
0-7: model.layers.#.feed_forward.w3.weight 160 64
`},
	"lfm2moe": {config: `{"architectures": ["Lfm2MoeForCausalLM"], "tie_word_embeddings": false, "num_hidden_layers": 6, "hidden_size": 64, "intermediate_size": 128, "moe_intermediate_size": 32,
"num_dense_layers": 2, "num_experts": 8, "num_experts_per_tok": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "vocab_size": 512,
"norm_eps": 1e-5, "rope_theta": 1000000, "conv_L_cache": 3, "layer_types": ["conv", "conv", "full_attention", "conv", "conv", "full_attention"]}`,
		tensors: convolution("0-5", "0,1,3,4", "2,5") + `
0,1: model.layers.#.feed_forward.w1.weight 128 64
0,1: model.layers.#.feed_forward.w2.weight 64 128
0,1: model.layers.#.feed_forward.w3.weight 128 64
2-5: model.layers.#.feed_forward.gate.weight 8 64
2-5: model.layers.#.feed_forward.expert_bias 8
2-5: model.layers.#.feed_forward.experts.*.w1.weight 32 64
2-5: model.layers.#.feed_forward.experts.*.w2.weight 64 32
2-5: model.layers.#.feed_forward.experts.*.w3.weight 32 64
`},
	"olmo2": {config: `{"architectures": ["Olmo2ForCausalLM"], "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 192, "num_attention_heads": 4, "num_key_value_heads": 4,
"max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-6, "rope_theta": 500000}`,
		tensors: endsHF + olmoLayers("0-3") + mlpHF},
	"smollm3": {config: `{"architectures": ["SmolLM3ForCausalLM"], "tie_word_embeddings": true, "num_hidden_layers": 8, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
"num_key_value_heads": 1, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-6, "rope_theta": 5000000, "no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 0]}`,
		tensors: tiedHF + strings.NewReplacer("0-3", "0-7", "192", "128", "weight 32", "weight 16").Replace(llamaHF+mlpHF)},
	"glm4": {config: `{"architectures": ["Glm4ForCausalLM"], "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
"head_dim": 16, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "partial_rotary_factor": 0.5}`,
		tensors: endsHF + llamaHF + `
0-3: model.layers.#.post_self_attn_layernorm.weight 64
0-3: model.layers.#.post_mlp_layernorm.weight 64
0-3: model.layers.#.self_attn.q_proj.bias 64
0-3: model.layers.#.self_attn.k_proj.bias 32
0-3: model.layers.#.self_attn.v_proj.bias 32
0-3: model.layers.#.mlp.gate_up_proj.weight 256 64
0-3: model.layers.#.mlp.down_proj.weight 64 128
`},
	"glm4moe": {config: `{"architectures": ["Glm4MoeForCausalLM"], "num_hidden_layers": 5, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
"head_dim": 32, "max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-5, "rope_theta": 1000000, "partial_rotary_factor": 0.5, "n_routed_experts": 8,
"num_experts_per_tok": 3, "moe_intermediate_size": 32, "n_shared_experts": 1, "first_k_dense_replace": 1, "routed_scaling_factor": 2.5, "norm_topk_prob": true,
"num_nextn_predict_layers": 1}`,
		tensors: endsHF + strings.ReplaceAll(wideHF+headNormsHF, "0-3", "0-5") + strings.ReplaceAll(expertsHF, "0-3", "1-5") + `
0-5: model.layers.#.self_attn.q_proj.bias 128
0-5: model.layers.#.self_attn.k_proj.bias 64
0-5: model.layers.#.self_attn.v_proj.bias 64
0: model.layers.#.mlp.gate_proj.weight 128 64
0: model.layers.#.mlp.up_proj.weight 128 64
0: model.layers.#.mlp.down_proj.weight 64 128
1-5: model.layers.#.mlp.gate.e_score_correction_bias 8
1-5: model.layers.#.mlp.shared_experts.gate_proj.weight 32 64
1-5: model.layers.#.mlp.shared_experts.up_proj.weight 32 64
1-5: model.layers.#.mlp.shared_experts.down_proj.weight 64 32
5: model.layers.#.eh_proj.weight 64 128
5: model.layers.#.enorm.weight 64
5: model.layers.#.hnorm.weight 64
5: model.layers.#.shared_head.norm.weight 64
`},
	"deepseek2": {config: `{"architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4,
"max_position_embeddings": 512, "vocab_size": 512, "rms_norm_eps": 1e-6, "q_lora_rank": 64, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32,
"rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 1024, "mscale_all_dim": 1.0}, "n_routed_experts": 8, "num_experts_per_tok": 3,
"moe_intermediate_size": 32, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2, "scoring_func": "sigmoid", "norm_topk_prob": true,
"routed_scaling_factor": 2.5, "num_nextn_predict_layers": 1}`,
		tensors: endsHF + normsHF + strings.ReplaceAll(expertsHF, "0-3", "1-3") + `
0-3: model.layers.#.self_attn.q_a_proj.weight 64 64
0-3: model.layers.#.self_attn.q_a_layernorm.weight 64
0-3: model.layers.#.self_attn.q_b_proj.weight 192 64
0-3: model.layers.#.self_attn.kv_a_proj_with_mqa.weight 48 64
0-3: model.layers.#.self_attn.kv_a_layernorm.weight 32
0-3: model.layers.#.self_attn.kv_b_proj.weight 256 32
0-3: model.layers.#.self_attn.o_proj.weight 64 128
0: model.layers.#.mlp.gate_proj.weight 128 64
0: model.layers.#.mlp.up_proj.weight 128 64
0: model.layers.#.mlp.down_proj.weight 64 128
1-3: model.layers.#.mlp.gate.e_score_correction_bias 8
1-3: model.layers.#.mlp.shared_experts.gate_proj.weight 32 64
1-3: model.layers.#.mlp.shared_experts.up_proj.weight 32 64
1-3: model.layers.#.mlp.shared_experts.down_proj.weight 64 32
4: model.layers.#.eh_proj.weight 64 128
`},
	"mamba2": {config: `{"architectures": ["Mamba2ForCausalLM"], "num_hidden_layers": 4, "hidden_size": 64, "head_dim": 16, "vocab_size": 512, "layer_norm_epsilon": 1e-5,
"conv_kernel": 4, "state_size": 32, "n_groups": 2, "num_heads": 8, "time_step_limit": [0.0, Infinity], "tie_word_embeddings": true}`,
		tensors: `
backbone.embeddings.weight 512 64
backbone.norm_f.weight 64
` + scans("backbone.layers.#.mixer", "0-3", 392, 256, 8, 128) + "0-3: backbone.layers.#.norm.weight 64"},
	"nemotron_h": {config: `{"architectures": ["NemotronHForCausalLM"], "num_hidden_layers": 8, "hidden_size": 64, "intermediate_size": 192, "num_attention_heads": 4,
"num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512, "vocab_size": 512, "layer_norm_epsilon": 1e-5, "hybrid_override_pattern": "M-*-M-*-",
"conv_kernel": 4, "ssm_state_size": 32, "n_groups": 2, "mamba_num_heads": 8, "mamba_head_dim": 16, "time_step_limit": [0.0, Infinity]}`,
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
1,3,5,7: backbone.layers.#.mixer.up_proj.weight 192 64
1,3,5,7: backbone.layers.#.mixer.down_proj.weight 64 192
`},
}

// different are keys that data/archs has and a checkpoint does not say, or the reverse, each for a reason.
var different = map[string][]string{
	"llama": {"vocab_size"}, "llama-tied": {"vocab_size"}, "granite": {"vocab_size", "rope.dimension_count"},
	"granitemoe":    {"vocab_size", "rope.dimension_count"},
	"granitehybrid": {"vocab_size", "rope.dimension_count"}, "granitehybrid-dense": {"vocab_size", "rope.dimension_count", "expert_shared_feed_forward_length"},
	"smollm3": {"vocab_size"},
	"phi3":    {"attention.sliding_window", "rope.freq_base", "rope.scaling.attn_factor"}, // the toy is longer than it was
	"mamba2":  {"context_length"}, "mamba": {"context_length", "ssm.dt_b_c_rms"}, "arcee": {"vocab_size"}, "olmoe": {"rope.freq_base"},
	"mistral3": {"vocab_size"}, "bailingmoe2": {"vocab_size"},
	"hunyuan-dense": {"context_length", "rope.scaling.original_context_length", "rope.freq_base"}, // of real ones
	"olmo3":         {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"},                // the one of all, and by how much it differs
	"phimoe":        {"attention.sliding_window", "rope.freq_base", "rope.scaling.attn_factor"},
	"bert":          {"pooling_type"}, "nomic-bert": {"pooling_type"}, "modern-bert": {"pooling_type"}, // in files of their own
}

// beyond are tensors that the files of data/archs have otherwise: none of the queries, keys and values of a layer that predicts a
// token further on, and experts' gates apart from what they gate, for example.
var beyond = map[string]*regexp.Regexp{
	"qwen35": regexp.MustCompile(`^\+ blk\.8\.attn_`), "glm4moe": regexp.MustCompile(`^\+ blk\.5\.attn_`),
	"gemma4":      regexp.MustCompile(`^\+ blk\.1[0-4]\.attn_[kv]`), // of layers that have none of their own
	"modern-bert": regexp.MustCompile(`^- blk\.0\.attn_norm`),       // which does nothing
	"gemma4-moe":  regexp.MustCompile(`ffn_(gate|up|gate_up)_exps|ffn_down_exps.scale`),
}

// TestArchs converts small checkpoints and compares what comes out with the files that llama.cpp's layout was taken from.
func TestArchs(t *testing.T) {
	all := maps.Clone(checkpoints)
	maps.Copy(all, otherCheckpoints)
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.write(t, dir)
			got, err := converted(t, dir, Options{Type: "f16"})
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(testdata.Path(t, "archs/"+name+".gguf"))
			if err != nil {
				t.Fatal(err)
			}
			want, err := gguf.Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range diff(shapes(got), shapes(want)) {
				if other := beyond[name]; other == nil || !other.MatchString(line) {
					t.Error(line)
				}
			}
			for _, line := range diff(settingsOf(got, different[name]), settingsOf(want, different[name])) {
				t.Error(line)
			}
		})
	}
}

// settingsOf returns a line for each key of an architecture.
func settingsOf(f *gguf.File, but []string) []string {
	arch, _ := f.Str("general.architecture")
	var all []string
	for _, kv := range f.KVs {
		key, ok := strings.CutPrefix(kv.Key, arch+".")
		if ok && !slices.Contains(but, key) {
			value := kv.Value
			if r := reflect.ValueOf(value); r.Kind() == reflect.Slice && r.Type().Elem().Kind() == reflect.Uint32 && key == "rope.dimension_sections" {
				value = fmt.Sprint(value)
			} else if key == "rope.dimension_sections" {
				value = fmt.Sprint(value)
			}
			all = append(all, fmt.Sprintf("%s %T %v", key, value, value))
		}
	}
	slices.Sort(all)
	return all
}

// diff returns lines that only one of two lists has.
func diff(got, want []string) []string {
	var all []string
	for _, g := range got {
		if !slices.Contains(want, g) {
			all = append(all, "+ "+g)
		}
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			all = append(all, "- "+w)
		}
	}
	return all
}

// biased returns tensors with a bias for each.
func biased(plain, with string) string {
	var b strings.Builder
	b.WriteString(plain)
	for line := range strings.Lines(strings.TrimSpace(with)) {
		words := strings.Fields(line)
		i := 0
		if strings.HasSuffix(words[0], ":") {
			fmt.Fprint(&b, words[0], " ")
			i = 1
		}
		fmt.Fprintln(&b, words[i]+".weight", strings.Join(words[i+1:], " "))
		if i == 1 {
			fmt.Fprint(&b, words[0], " ")
		}
		fmt.Fprintln(&b, words[i]+".bias", words[i+1])
	}
	return b.String()
}

// delta is layers of Qwen's hybrids: those with a state, those with attention, and what all have.
func delta(_ int, linear, full string, width int) string {
	return fmt.Sprintf(`
0-7: model.layers.#.input_layernorm.weight %[3]d
0-7: model.layers.#.post_attention_layernorm.weight %[3]d
%[1]s: model.layers.#.linear_attn.A_log 4
%[1]s: model.layers.#.linear_attn.dt_bias 4
%[1]s: model.layers.#.linear_attn.conv1d.weight 256 1 4
%[1]s: model.layers.#.linear_attn.norm.weight 32
%[1]s: model.layers.#.linear_attn.out_proj.weight %[3]d 128
%[2]s: model.layers.#.self_attn.q_proj.weight 256 %[3]d
%[2]s: model.layers.#.self_attn.k_proj.weight 64 %[3]d
%[2]s: model.layers.#.self_attn.v_proj.weight 64 %[3]d
%[2]s: model.layers.#.self_attn.o_proj.weight %[3]d 128
%[2]s: model.layers.#.self_attn.q_norm.weight 32
%[2]s: model.layers.#.self_attn.k_norm.weight 32
`, linear, full, width)
}

func splitDelta(layers string, width int) string {
	return fmt.Sprintf(`
%[1]s: model.layers.#.linear_attn.in_proj_qkv.weight 256 %[2]d
%[1]s: model.layers.#.linear_attn.in_proj_z.weight 128 %[2]d
%[1]s: model.layers.#.linear_attn.in_proj_a.weight 4 %[2]d
%[1]s: model.layers.#.linear_attn.in_proj_b.weight 4 %[2]d
`, layers, width)
}

func sharedExperts(layers string, width int) string {
	return fmt.Sprintf(`
%[1]s: model.layers.#.mlp.gate.weight 8 %[2]d
%[1]s: model.layers.#.mlp.experts.*.gate_proj.weight 32 %[2]d
%[1]s: model.layers.#.mlp.experts.*.up_proj.weight 32 %[2]d
%[1]s: model.layers.#.mlp.experts.*.down_proj.weight %[2]d 32
%[1]s: model.layers.#.mlp.shared_expert.gate_proj.weight 32 %[2]d
%[1]s: model.layers.#.mlp.shared_expert.up_proj.weight 32 %[2]d
%[1]s: model.layers.#.mlp.shared_expert.down_proj.weight %[2]d 32
%[1]s: model.layers.#.mlp.shared_expert_gate.weight 1 %[2]d
`, layers, width)
}

func graniteMixture(layers string, shared int) string {
	return fmt.Sprintf(`
%[1]s: model.layers.#.block_sparse_moe.router.layer.weight 8 64
%[1]s: model.layers.#.block_sparse_moe.input_linear.weight 8 64 64
%[1]s: model.layers.#.block_sparse_moe.output_linear.weight 8 64 32
%[1]s: model.layers.#.shared_mlp.input_linear.weight %[3]d 64
%[1]s: model.layers.#.shared_mlp.output_linear.weight 64 %[2]d
`, layers, shared, 2*shared)
}

var graniteLayers = `
0-5: model.layers.#.input_layernorm.weight 64
0-5: model.layers.#.post_attention_layernorm.weight 64
2,5: model.layers.#.self_attn.q_proj.weight 64 64
2,5: model.layers.#.self_attn.k_proj.weight 32 64
2,5: model.layers.#.self_attn.v_proj.weight 32 64
2,5: model.layers.#.self_attn.o_proj.weight 64 64
` + scans("model.layers.#.mamba", "0,1,3,4", 328, 192, 8, 128)

// scans is layers of Mamba 2.
func scans(prefix, layers string, in, channels, heads, inner int) string {
	return fmt.Sprintf(`
%[2]s: %[1]s.A_log %[5]d
%[2]s: %[1]s.D %[5]d
%[2]s: %[1]s.dt_bias %[5]d
%[2]s: %[1]s.conv1d.weight %[4]d 1 4
%[2]s: %[1]s.conv1d.bias %[4]d
%[2]s: %[1]s.in_proj.weight %[3]d 64
%[2]s: %[1]s.norm.weight %[6]d
%[2]s: %[1]s.out_proj.weight 64 %[6]d
`, prefix, layers, in, channels, heads, inner)
}

func convolution(all, convolved, attending string) string {
	return fmt.Sprintf(`
model.embed_tokens.weight 512 64
model.embedding_norm.weight 64
lm_head.weight 512 64
%[1]s: model.layers.#.operator_norm.weight 64
%[1]s: model.layers.#.ffn_norm.weight 64
%[2]s: model.layers.#.conv.conv.weight 64 1 3
%[2]s: model.layers.#.conv.in_proj.weight 192 64
%[2]s: model.layers.#.conv.out_proj.weight 64 64
%[3]s: model.layers.#.self_attn.q_proj.weight 64 64
%[3]s: model.layers.#.self_attn.k_proj.weight 32 64
%[3]s: model.layers.#.self_attn.v_proj.weight 32 64
%[3]s: model.layers.#.self_attn.out_proj.weight 64 64
%[3]s: model.layers.#.self_attn.q_layernorm.weight 16
%[3]s: model.layers.#.self_attn.k_layernorm.weight 16
`, all, convolved, attending)
}

func olmoLayers(layers string) string {
	return fmt.Sprintf(`
%[1]s: model.layers.#.self_attn.q_proj.weight 64 64
%[1]s: model.layers.#.self_attn.k_proj.weight 64 64
%[1]s: model.layers.#.self_attn.v_proj.weight 64 64
%[1]s: model.layers.#.self_attn.o_proj.weight 64 64
%[1]s: model.layers.#.self_attn.q_norm.weight 64
%[1]s: model.layers.#.self_attn.k_norm.weight 64
%[1]s: model.layers.#.post_attention_layernorm.weight 64
%[1]s: model.layers.#.post_feedforward_layernorm.weight 64
`, layers)
}
