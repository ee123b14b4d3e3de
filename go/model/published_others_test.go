package model

import "github.com/quern-llm/quern/go/model/arch"

// publishedOthers are files that no table of sizes has in common.
var publishedOthers = []published{
	{"glm-4-9b-chat", "chatglm", 40, map[string]any{
		"context_length": u32(131072), "embedding_length": u32(4096), "feed_forward_length": u32(13696), "attention.head_count": u32(32),
		"attention.head_count_kv": u32(2), "attention.layer_norm_rms_epsilon": float32(1.5625e-07), "rope.dimension_count": u32(64),
		"rope.freq_base": float32(5e6),
	}, `
- token_embd 4096 151552
- output_norm 4096
- output 4096 151552
* attn_norm 4096
* attn_qkv 4096 4608
* attn_qkv.bias 4608
* attn_output 4096 4096
* ffn_norm 4096
* ffn_up 4096 27392
* ffn_down 13696 4096`,
		func(c *Config) bool { return neighbours(c) && c.Layers[0].Rope.NRot == 64 && c.Layers[39].NFF == 13696 }},
	{"chatglm3-6b", "chatglm", 28, map[string]any{
		"context_length": u32(8192), "embedding_length": u32(4096), "feed_forward_length": u32(13696), "attention.head_count": u32(32),
		"attention.head_count_kv": u32(2), "attention.layer_norm_rms_epsilon": float32(1e-5), "rope.dimension_count": u32(64),
	}, `
- token_embd 4096 65024
- output_norm 4096
- output 4096 65024
* attn_norm 4096
* attn_qkv 4096 4608
* attn_qkv.bias 4608
* attn_output 4096 4096
* ffn_norm 4096
* ffn_up 4096 27392
* ffn_down 13696 4096`,
		func(c *Config) bool { return neighbours(c) && c.Layers[0].Rope.NRot == 64 && c.Layers[27].NFF == 13696 }},
	{"snowflake-arctic-instruct", "arctic", 35, map[string]any{
		"context_length": u32(4096), "embedding_length": u32(7168), "feed_forward_length": u32(4864), "attention.head_count": u32(56),
		"attention.head_count_kv": u32(8), "attention.layer_norm_rms_epsilon": float32(1e-5), "rope.dimension_count": u32(128),
		"expert_count": u32(128), "expert_used_count": u32(2),
	}, `
- token_embd 7168 32000
- output_norm 7168
- output 7168 32000
* attn_norm 7168
* attn_q 7168 7168
* attn_k 7168 1024
* attn_v 7168 1024
* attn_output 7168 7168
* ffn_norm 7168
* ffn_gate 7168 7168
* ffn_up 7168 7168
* ffn_down 7168 7168
* ffn_norm_exps 7168
* ffn_gate_inp 7168 128
* ffn_gate_exps 7168 4864 128
* ffn_up_exps 7168 4864 128
* ffn_down_exps 4864 7168 128`,
		func(c *Config) bool {
			return neighbours(c) && c.Layers[0].NFF == 7168 && c.NFFExpert == 4864 && c.ExpertNorm
		}},
	{"grok-1", "grok", 64, map[string]any{
		"context_length": u32(8192), "embedding_length": u32(6144), "feed_forward_length": u32(32768), "attention.head_count": u32(48),
		"attention.head_count_kv": u32(8), "attention.layer_norm_rms_epsilon": float32(1e-5), "expert_count": u32(8), "expert_used_count": u32(2),
	}, `
- token_embd 6144 131072
- output_norm 6144
* attn_norm 6144
* attn_q 6144 6144
* attn_k 6144 1024
* attn_v 6144 1024
* attn_output 6144 6144
* attn_output_norm 6144
* ffn_norm 6144
* layer_output_norm 6144
* ffn_gate_inp 6144 8
* ffn_gate_exps 6144 32768 8
* ffn_up_exps 6144 32768 8
* ffn_down_exps 32768 6144 8`,
		func(c *Config) bool {
			return halves(c) && c.AttnCap == 30 && c.RouterCap == 0 && c.LogitCap == 0 && c.ExpertScale == 1 && c.EmbedScale > 78 && c.NFFExpert == 32768
		}},
	{"PLM-1.8B-Instruct", "plm", 32, map[string]any{
		"context_length": u32(4096), "embedding_length": u32(2048), "feed_forward_length": u32(8192), "attention.head_count": u32(16),
		"attention.head_count_kv": u32(16), "attention.layer_norm_rms_epsilon": float32(1e-6), "attention.kv_lora_rank": u32(512),
		"attention.key_length": u32(192), "attention.value_length": u32(128), "rope.dimension_count": u32(64), "rope.freq_base": float32(1e5),
	}, `
- token_embd 2048 151936
- output_norm 2048
* attn_norm 2048
* attn_q 2048 3072
* attn_kv_a_mqa 2048 576
* attn_kv_a_norm 512
* attn_kv_b 512 4096
* attn_output 2048 2048
* ffn_norm 2048
* ffn_up 2048 8192
* ffn_down 8192 2048`,
		func(c *Config) bool {
			return neighbours(c) && c.Latent.Rank == 512 && c.Latent.KeyDim == 192 && c.Latent.ValueDim == 128
		}},
	{"NeoBERT", "neo-bert", 28, map[string]any{
		"context_length": u32(4096), "embedding_length": u32(768), "feed_forward_length": u32(2048), "attention.head_count": u32(12),
		"attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(10000), "attention.causal": false,
	}, `
- token_embd 768 30522
- enc.output_norm 768
* attn_norm 768
* attn_qkv 768 2304
* attn_output 768 768
* ffn_norm 768
* ffn_up 768 4096
* ffn_down 2048 768`,
		func(c *Config) bool { return neighbours(c) && c.BothWays }},
	{"plamo-13b", "plamo", 40, map[string]any{
		"context_length": u32(4096), "embedding_length": u32(5120), "feed_forward_length": u32(13824), "attention.head_count": u32(40),
		"attention.head_count_kv": u32(5), "attention.layer_norm_rms_epsilon": float32(1e-6),
	}, `
- token_embd 5120 50432
- output_norm 5120
- output 5120 50432
* attn_norm 5120
* attn_q 5120 5120
* attn_k 5120 640
* attn_v 5120 640
* attn_output 5120 5120
* ffn_gate 5120 13824
* ffn_up 5120 13824
* ffn_down 13824 5120`,
		func(c *Config) bool { return halves(c) && c.Layers[0].NHeadKV == 5 }},
	{"rwkv6-world-1.6b", "rwkv6", 24, map[string]any{
		"context_length": u32(1 << 20), "embedding_length": u32(2048), "feed_forward_length": u32(7168), "attention.head_count": u32(0),
		"attention.layer_norm_epsilon": float32(1e-5), "rescale_every_n_layers": u32(6), "wkv.head_size": u32(64),
		"time_mix_extra_dim": u32(32), "time_decay_extra_dim": u32(64),
	}, `
- token_embd 2048 65536
- token_embd_norm 2048
- token_embd_norm.bias 2048
- output_norm 2048
- output_norm.bias 2048
- output 2048 65536
* attn_norm 2048
* attn_norm.bias 2048
* attn_norm_2 2048
* attn_norm_2.bias 2048
* time_mix_w1 2048 160
* time_mix_w2 32 2048 5
* time_mix_lerp_x 2048 1 1
* time_mix_lerp_fused 2048 1 1 5
* time_mix_first 64 32
* time_mix_decay 2048
* time_mix_decay_w1 2048 64
* time_mix_decay_w2 64 2048
* time_mix_key 2048 2048
* time_mix_value 2048 2048
* time_mix_receptance 2048 2048
* time_mix_gate 2048 2048
* time_mix_ln 2048
* time_mix_ln.bias 2048
* time_mix_output 2048 2048
* channel_mix_lerp_k 2048 1 1
* channel_mix_lerp_r 2048 1 1
* channel_mix_key 2048 7168
* channel_mix_value 7168 2048
* channel_mix_receptance 2048 2048`,
		func(c *Config) bool {
			return c.RWKV == arch.RWKV{HeadDim: 64, Shares: 32, Decay: 64, Halve: 6} && c.Layers[23].NHeadKV == 32
		}},
	{"rwkv6-world-7b", "rwkv6", 32, map[string]any{
		"context_length": u32(1 << 20), "embedding_length": u32(4096), "feed_forward_length": u32(14336), "attention.head_count": u32(0),
		"attention.layer_norm_epsilon": float32(1e-5), "rescale_every_n_layers": u32(6), "wkv.head_size": u32(64),
		"time_mix_extra_dim": u32(64), "time_decay_extra_dim": u32(128),
	}, `
- token_embd 4096 65536
- token_embd_norm 4096
- token_embd_norm.bias 4096
- output_norm 4096
- output_norm.bias 4096
- output 4096 65536
* attn_norm 4096
* attn_norm.bias 4096
* attn_norm_2 4096
* attn_norm_2.bias 4096
* time_mix_w1 4096 320
* time_mix_w2 64 4096 5
* time_mix_lerp_x 4096 1 1
* time_mix_lerp_fused 4096 1 1 5
* time_mix_first 64 64
* time_mix_decay 4096
* time_mix_decay_w1 4096 128
* time_mix_decay_w2 128 4096
* time_mix_key 4096 4096
* time_mix_value 4096 4096
* time_mix_receptance 4096 4096
* time_mix_gate 4096 4096
* time_mix_ln 4096
* time_mix_ln.bias 4096
* time_mix_output 4096 4096
* channel_mix_lerp_k 4096 1 1
* channel_mix_lerp_r 4096 1 1
* channel_mix_key 4096 14336
* channel_mix_value 14336 4096
* channel_mix_receptance 4096 4096`,
		func(c *Config) bool {
			return c.RWKV == arch.RWKV{HeadDim: 64, Shares: 64, Decay: 128, Halve: 6} && c.Layers[31].NHeadKV == 64
		}},
}
