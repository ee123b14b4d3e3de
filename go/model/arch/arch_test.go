package arch

import (
	"os"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// README names every architecture.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(readme), "\n") {
		if !strings.HasPrefix(line, "| architectures |") {
			continue
		}
		for _, name := range Names() {
			if !strings.Contains(line, "`"+name+"`") {
				t.Errorf("README: add `%s` to the row of architectures", name)
			}
		}
		return
	}
	t.Error("README has no row of architectures")
}

// What is wrong in the keys of an architecture is one line that names the key.
func TestConfigRefuses(t *testing.T) {
	base := map[string]any{
		"context_length": uint32(512), "embedding_length": uint32(64), "block_count": uint32(4),
		"feed_forward_length": uint32(64), "attention.head_count": uint32(4),
		"attention.layer_norm_rms_epsilon": float32(1e-6), "attention.layer_norm_epsilon": float32(1e-6),
		"attention.sliding_window": uint32(16), "shortconv.l_cache": uint32(3), "ssm.conv_kernel": uint32(4),
		"ssm.state_size": uint32(32), "ssm.group_count": uint32(2), "ssm.time_step_rank": uint32(4),
		"ssm.inner_size": uint32(128), "rope.dimension_count": uint32(16), "attention.kv_lora_rank": uint32(32),
		"attention.key_length_mla": uint32(48), "attention.value_length_mla": uint32(32), "kda.head_dim": uint32(32),
		"attention.q_lora_rank": uint32(32), "attention.indexer.head_count": uint32(4),
		"attention.indexer.key_length": uint32(32), "attention.indexer.top_k": uint32(16), "expert_count": uint32(4),
		"expert_used_count": uint32(2), "expert_group_used_count": uint32(1), "attention.head_count_kv": uint32(4),
		"attention.output_group_count": uint32(2), "attention.output_lora_rank": uint32(32),
		"attention.compress_rope_freq_base": float32(160000), "attention.compress_ratios": []int32{0, 0, 4, 128},
		"hyper_connection.count": uint32(4), "hyper_connection.sinkhorn_iterations": uint32(3),
		"hyper_connection.epsilon": float32(1e-6), "hrm.layers_per_stack": uint32(1), "hrm.h_cycles": uint32(2),
		"hrm.l_cycles": uint32(1),
	}
	more := map[string]map[string]any{ // which others would not read
		"hy_v4":      {"hyper_connection.magnitude": float32(2)},
		"minimax-m3": {"attention.indexer.block_size": uint32(64), "attention.indexer.local_blocks": uint32(1)},
	}
	for _, tt := range []struct {
		arch, key string
		value     any // nil: the key is missing
		want      string
	}{
		{"cohere2", "attention.sliding_window", nil, `"cohere2.attention.sliding_window"`},
		{"gemma2", "attention.sliding_window", uint32(0), "0, want 1 to"},
		{"gemma2", "attention.sliding_window_pattern", []bool{true, false},
			"2 elements, want one for each of the 4 layers"},
		{"gemma2", "final_logit_softcapping", float32(-1), "-1, want 0 to"},
		{"gemma3", "rope.freq_base_swa", float32(0), "freq_base_swa"},
		{"gemma4", "attention.shared_kv_layers", uint32(4), "4, want 0 to 3"},
		{"gemma4", "attention.head_count_kv", []int32{4, 4, 4, 3}, "3, want a divisor of the 4 heads"},
		{"gemma4", "attention.value_length", uint32(32), "32 in layer 0, want the 16 of keys"},
		{"gemma4", "embedding_length_per_layer_input", uint32(8), "8, want a multiple of 16"},
		{"gemma4", "rope.dimension_count_swa", uint32(7), "7, want an even number"},
		{"gemma3n", "embedding_length_per_layer_input", nil, "0 of 64, want more than 0"},
		{"phi2", "attention.layer_norm_epsilon", nil, "layer_norm_epsilon"},
		{"command-r", "logit_scale", float32(0), "logit_scale"},
		{"granite", "attention.scale", float32(0), `"granite.attention.scale"`},
		{"lfm2", "shortconv.l_cache", nil, "l_cache"},
		{"lfm2", "shortconv.l_cache", uint32(1 << 20), "want 2 to 64"},
		{"lfm2", "attention.head_count_kv", []int32{0, 3, 0, 4}, "3, want a divisor of the 4 heads"},
		{"olmo2", "attention.head_count_kv", []int32{0, 4, 0, 4}, "0, want 1 to"},
		{"qwen3moe", "expert_count", nil, `"qwen3moe.expert_count"`},
		{"qwen35", "ssm.state_size", nil, `"qwen35.ssm.state_size"`},
		{"qwen35", "ssm.state_size", uint32(4), "4, want 2 heads of it to be a multiple of 16"},
		{"qwen35", "ssm.conv_kernel", uint32(1), "1, want 2 to 64"},
		{"qwen35", "ssm.group_count", uint32(3), "3, want a divisor of the 4 heads"},
		{"qwen35", "ssm.time_step_rank", uint32(0), "0, want 1 to"},
		{"qwen35", "ssm.inner_size", uint32(96), "96, want a multiple of 16 for each of the 4 heads"},
		{"qwen35", "full_attention_interval", uint32(0), "0, want 1 to"},
		{"qwen35", "attention.recurrent_layers", []bool{true}, "1 elements, want one for each of the 4 layers"},
		{"qwen35", "rope.dimension_sections", []int32{3, 3}, "2 elements, want at least 3"},
		{"qwen35", "rope.dimension_sections", []int32{3, 2, 2, 1}, "want three sections that take turns"},
		{"qwen35", "nextn_predict_layers", uint32(4), "4, want 0 to 3"},
		{"mamba", "ssm.time_step_rank", uint32(24), "24, want a multiple of 16"},
		{"mamba", "ssm.state_size", uint32(1024), "1024, want 1 to 256"},
		{"mamba", "ssm.state_size", uint32(8), "8, want a multiple of 16"},
		{"mamba2", "ssm.inner_size", nil, `"mamba2.ssm.inner_size"`},
		{"mamba2", "ssm.inner_size", uint32(96), "96, want a multiple of 16 for each of the 4 heads"},
		{"mamba2", "ssm.group_count", uint32(3), "3, want a divisor of the 4 heads"},
		{"mamba2", "ssm.state_size", uint32(4), "4, want 2 groups of it to be a multiple of 16"},
		{"granitehybrid", "rope.scaling.finetuned", uint32(1), "finetuned"},
		{"nemotron_h", "feed_forward_length", []int32{64, 0}, "2 elements"},
		{"nemotron_h_moe", "expert_count", nil, `"nemotron_h_moe.expert_count"`},
		{"nemotron_h_moe", "expert_feed_forward_length", []int32{32, 64, 32, 64},
			"layers that differ in this are not supported"},
		{"deepseek2", "attention.kv_lora_rank", nil, `"deepseek2.attention.kv_lora_rank"`},
		{"deepseek2", "attention.kv_lora_rank", uint32(16),
			"16, want a multiple of 16, at least the 32 of a head that are not rotated"},
		{"deepseek2", "attention.kv_lora_rank", uint32(40), "40, want a multiple of 16"},
		{"deepseek2", "attention.key_length_mla", uint32(16),
			"16, want a multiple of 16 more than the 16 that are rotated"},
		{"deepseek2", "attention.value_length_mla", uint32(24), "24, want a multiple of 16"},
		{"deepseek2", "rope.dimension_count", uint32(8), "8, want a multiple of 16"},
		{"deepseek2", "rope.dimension_count", nil, `"deepseek2.rope.dimension_count"`},
		{"mistral4", "attention.temperature_scale", float32(-1), "-1, want 0 to"},
		{"deepseek2", "expert_group_count", uint32(3), "3, want a divisor of the"},
		{"deepseek2", "expert_group_count", uint32(4), "1, whose experts are 1, want at least the 2"},
		{"kimi-linear", "kda.head_dim", uint32(24), "24, want a multiple of 16"},
		{"kimi-linear", "attention.head_count", []uint32{4, 4, 8, 4}, "4 for layer 0 and 8 for layer 2"},
		{"kimi-linear", "attention.head_count_kv", []uint32{0, 1}, "2 elements, want one for each of the 4 layers"},
		{"deepseek32", "attention.indexer.top_k", nil, `"deepseek32.attention.indexer.top_k"`},
		{"deepseek32", "attention.indexer.top_k", uint32(1 << 20), "want 1 to 65536"},
		{"deepseek32", "attention.indexer.key_length", uint32(8),
			"8, want a multiple of 16, at least the 16 that are rotated"},
		{"deepseek32", "attention.q_lora_rank", nil, "want 1 or more for the queries of the index"},
		{"deepseek4", "attention.compress_ratios", []int32{4, 128}, "2 elements, want one for each of the 4 layers"},
		{"deepseek4", "attention.compress_ratios", []int32{0, 4, 8, 4}, "8 for layer 2, supported are 0, 4 and 128"},
		{"deepseek4", "attention.head_count_kv", uint32(2), "2, want 1"},
		{"deepseek4", "attention.output_group_count", uint32(3), "3 of 4 heads"},
		{"deepseek4", "attention.output_lora_rank", uint32(24), "rank 24, want a divisor, and a multiple of 16"},
		{"deepseek4", "hyper_connection.count", uint32(17), "17, want 2 to 16"},
		{"deepseek4", "swiglu_clamp_exp", []float32{1, 2}, "2 elements"},
		{"deepseek4", "swiglu_clamp_exp", float32(-1), "-1, want 0 or more"},
		{"deepseek4", "hash_layer_count", uint32(5), "5, want 0 to 4"},
		{"deepseek4", "expert_gating_func", uint32(5), "4 (root of the softplus)"},
		{"glm-dsa", "attention.indexer.types", []bool{true}, "1 elements, want one for each of the 4 layers"},
		{"glm-dsa", "attention.indexer.types", []bool{false, true, true, true}, "false for layer 0"},
		{"hy_v4", "attention.indexer.types", []bool{false, true, true, true}, "false for layer 0"},
		{"hy_v4", "attention.indexer.key_length", uint32(8),
			"8, want a multiple of 16, at least the 16 that are rotated"},
		{"hy_v4", "hyper_connection.magnitude", nil, `"hy_v4.hyper_connection.magnitude"`},
		{"hy_v4", "hyper_connection.magnitude", float32(0), "0, want 0.001 to 1000"},
		{"hy_v4", "hyper_connection.count", uint32(1), "1, want 2 to 16"},
		{"minimax-m3", "attention.indexer.block_size", uint32(48), "48, want a divisor or a multiple of 64"},
		{"minimax-m3", "attention.indexer.block_size", uint32(8192),
			"16 of 8192 positions, want more than the 1 that are always seen, and at most 65536 positions"},
		{"minimax-m3", "attention.indexer.local_blocks", uint32(16), "want more than the 16 that are always seen"},
		{"minimax-m3", "attention.indexer.local_blocks", uint32(0), "0, want 1 to 65536"},
		{"minimax-m3", "attention.indexer.head_count", uint32(2), "2, want the 4 key-value heads of layer 0"},
		{"minimax-m3", "attention.indexer.key_length", uint32(40), "40, want a multiple of 16"},
		{"olmo", "attention.clamp_kqv", float32(-8), "-8, want 0 to"},
		{"mpt", "attention.max_alibi_bias", float32(4), "4 is not supported, supported are 0 and 8"},
		{"qwen", "feed_forward_length", uint32(63), "63, want an even number"},
		{"minicpm", "logit_scale", float32(0), "logit_scale"},
		{"gptneox", "use_parallel_residual", uint32(1), "use_parallel_residual"},
		{"arcee", "feed_forward_length", []int32{64, 64, 64}, "3 elements"},
		{"grok", "attention.temperature_length", uint32(1), "1, want 0 or more than 1"},
		{"step35", "attention.sliding_window_pattern", nil, `"step35.attention.sliding_window_pattern"`},
		{"talkie", "logit_scale", nil, `"talkie.logit_scale"`},
		{"hrm_text", "hrm.l_cycles", nil, `"hrm_text.hrm.l_cycles"`},
		{"hrm_text", "hrm.h_cycles", uint32(3), "4, want 6: 3 cycles of 2 runs of 1 layers"},
		{"bailingmoe3", "kda.gate_lower_bound", float32(0), "0, want less"},
		{"bailingmoe3", "kda.gate_lower_bound", nil, `"bailingmoe3.kda.gate_lower_bound"`},
		{"bailingmoe3", "kda.safe_gate", false, "false: decays without a bound"},
		{"granite_swa", "attention.rope_pattern", []bool{true}, "1 elements, want one for each of the 4 layers"},
		{"jais", "attention.max_alibi_bias", float32(4), "4 is not supported, supported are 0 and 8"},
		{"hunyuan_vl", "rope.scaling.alpha", float32(-1), "-1, want 0 to"},
		{"cohere2", "rope.freq_base_swa", float32(0), "freq_base_swa"},
		// What an architecture does not read must not change anything.
		{"llama", "final_logit_softcapping", float32(30),
			`"llama.final_logit_softcapping": 30 is not supported by llama`},
		{"qwen3", "attention.clamp_kqv", float32(8), "8 is not supported by qwen3"},
		{"qwen3moe", "swiglu_clamp_exp", []float32{0, 0, 7, 0}, "7 is not supported by qwen3moe"},
		{"granite", "attention.rope_pattern", []bool{true, true, false, true}, "0 is not supported by granite"},
		{"gptneox", "attention.max_alibi_bias", float32(8), "8 is not supported by gptneox"},
		{"starcoder2", "logit_scale", uint32(2), "2 is not supported by starcoder2"},
		{"gemma2", "rope.dimension_count_swa", uint32(8), "8 is not supported by gemma2"},
		{"kimi-linear", "kda.gate_lower_bound", float32(-5), "-5 is not supported by kimi-linear"},
		{"qwen3moe", "expert_gating_func", uint32(2), "2 is not supported by qwen3moe"},
	} {
		t.Run(tt.arch+" "+tt.key, func(t *testing.T) {
			w := gguf.NewWriter()
			w.Set("general.architecture", tt.arch)
			for _, keys := range []map[string]any{base, more[tt.arch]} {
				for k, v := range keys {
					if k != tt.key {
						w.Set(tt.arch+"."+k, v)
					}
				}
			}
			if tt.value != nil {
				w.Set(tt.arch+"."+tt.key, tt.value)
			}
			w.AddTensor("token_embd.weight", gguf.F32, []uint64{64, 1}, gguf.Bytes(make([]byte, 256)))
			f := parsed(t, w)
			if _, err := ReadConfig(f); err == nil || !strings.Contains(err.Error(), tt.want) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, tt.want)
			}
		})
	}
}
