package model

// A published is what the file of a published model has: its keys, without the name of the
// architecture, and its tensors as converters name them. A line of tensors says in which layers,
// * for all and - for none, the name, to which .weight belongs unless ! follows, and the dimensions.
type published struct {
	name, arch string
	layers     int // of the file, with those that predict further tokens
	keys       map[string]any
	tensors    string
	check      func(c *Config) bool
}

func u32(n int) uint32 { return uint32(n) }

var publishedModels = []published{
	{
		"bitnet-b1.58-2B-4T", "bitnet", 30, map[string]any{
			"context_length": u32(4096), "embedding_length": u32(2560), "feed_forward_length": u32(6912), "attention.head_count": u32(20),
			"attention.head_count_kv": u32(5), "attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(500000),
			"rope.scaling.type": "linear", "rope.scaling.factor": float32(1), "rope.dimension_count": u32(128),
		}, `
- token_embd 2560 128256
- output_norm 2560
* attn_norm 2560
* attn_q 2560 2560
* attn_q.scale! 1
* attn_k 2560 640
* attn_v 2560 640
* attn_sub_norm 2560
* attn_output 2560 2560
* ffn_norm 2560
* ffn_gate 2560 6912
* ffn_up 2560 6912
* ffn_sub_norm 6912
* ffn_down 6912 2560
* ffn_down.scale! 1`,
		func(c *Config) bool { return c.Layers[29].HeadDim == 128 && c.Layers[0].Rope.NRot == 128 },
	},
	{
		"bitnet_b1_58-3B", "bitnet", 26, map[string]any{
			"context_length": u32(2048), "embedding_length": u32(3200), "feed_forward_length": u32(8640), "attention.head_count": u32(32),
			"attention.head_count_kv": u32(32), "attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(10000),
			"rope.scaling.type": "linear", "rope.scaling.factor": float32(1), "rope.dimension_count": u32(100),
		}, `
- token_embd 3200 32002
- output_norm 3200
* attn_norm 3200
* attn_q 3200 3200
* attn_k 3200 3200
* attn_v 3200 3200
* attn_sub_norm 3200
* attn_output 3200 3200
* ffn_norm 3200
* ffn_gate 3200 8640
* ffn_up 3200 8640
* ffn_sub_norm 8640
* ffn_down 8640 3200`,
		func(c *Config) bool { return c.Layers[0].HeadDim == 100 },
	},
	{
		"minitron-4b", "nemotron", 32, map[string]any{
			"context_length": u32(4096), "embedding_length": u32(3072), "feed_forward_length": u32(9216), "attention.head_count": u32(24),
			"attention.head_count_kv": u32(8), "attention.key_length": u32(128), "attention.value_length": u32(128),
			"attention.layer_norm_epsilon": float32(1e-5), "rope.freq_base": float32(10000), "rope.dimension_count": u32(64),
			"rope.scaling.type": "none",
		}, `
- token_embd 3072 256000
- output_norm 3072
- output_norm.bias 3072
- output 3072 256000
* attn_norm 3072
* attn_norm.bias 3072
* attn_q 3072 3072
* attn_k 3072 1024
* attn_v 3072 1024
* attn_output 3072 3072
* ffn_norm 3072
* ffn_norm.bias 3072
* ffn_up 3072 9216
* ffn_down 9216 3072`,
		func(c *Config) bool { return c.Layers[0].HeadDim == 128 && c.Layers[0].Rope.NRot == 64 },
	},
	{
		"gpt-oss-20b", "gpt-oss", 24, map[string]any{
			"context_length": u32(131072), "embedding_length": u32(2880), "feed_forward_length": u32(2880),
			"attention.head_count": u32(64), "attention.head_count_kv": u32(8), "attention.key_length": u32(64), "attention.value_length": u32(64),
			"attention.layer_norm_rms_epsilon": float32(1e-5), "attention.sliding_window": u32(128), "rope.freq_base": float32(150000),
			"rope.scaling.type": "yarn", "rope.scaling.factor": float32(32), "rope.scaling.original_context_length": u32(4096),
			"expert_count": u32(32), "expert_used_count": u32(4), "expert_feed_forward_length": u32(2880),
		}, `
- token_embd 2880 201088
- output_norm 2880
- output 2880 201088
* attn_norm 2880
* attn_q 2880 4096
* attn_q.bias 4096
* attn_k 2880 512
* attn_k.bias 512
* attn_v 2880 512
* attn_v.bias 512
* attn_output 4096 2880
* attn_output.bias 2880
* attn_sinks 64
* post_attention_norm 2880
* ffn_gate_inp 2880 32
* ffn_gate_inp.bias 32
* ffn_gate_exps 2880 2880 32
* ffn_gate_exps.bias 2880 32
* ffn_up_exps 2880 2880 32
* ffn_up_exps.bias 2880 32
* ffn_down_exps 2880 2880 32
* ffn_down_exps.bias 2880 32`,
		func(c *Config) bool {
			return c.Layers[0].Window == 128 && c.Layers[1].Window == 0 && c.Layers[23].Window == 0 && c.Layers[22].Window == 128
		},
	},
	{
		"GLM-4.5-Air", "glm4moe", 47, map[string]any{
			"context_length": u32(131072), "embedding_length": u32(4096), "feed_forward_length": u32(10944), "nextn_predict_layers": u32(1),
			"attention.head_count": u32(96), "attention.head_count_kv": u32(8), "attention.key_length": u32(128), "attention.value_length": u32(128),
			"attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(1000000), "rope.dimension_count": u32(64),
			"expert_count": u32(128), "expert_used_count": u32(8), "expert_feed_forward_length": u32(1408), "expert_shared_count": u32(1),
			"leading_dense_block_count": u32(1), "expert_gating_func": u32(2), "expert_weights_norm": true, "expert_weights_scale": float32(1),
			"expert_group_count": u32(1), "expert_group_used_count": u32(1),
		}, `
- token_embd 4096 151552
- output_norm 4096
- output 4096 151552
* attn_norm 4096
* attn_q 4096 12288
* attn_q.bias 12288
* attn_k 4096 1024
* attn_k.bias 1024
* attn_v 4096 1024
* attn_v.bias 1024
* attn_output 12288 4096
* post_attention_norm 4096
0:1 ffn_gate 4096 10944
0:1 ffn_up 4096 10944
0:1 ffn_down 10944 4096
1:47 ffn_gate_inp 4096 128
1:47 exp_probs_b.bias 128
1:47 ffn_gate_exps 4096 1408 128
1:47 ffn_up_exps 4096 1408 128
1:47 ffn_down_exps 1408 4096 128
1:47 ffn_gate_shexp 4096 1408
1:47 ffn_up_shexp 4096 1408
1:47 ffn_down_shexp 1408 4096
46:47 nextn.eh_proj 8192 4096
46:47 nextn.enorm 4096
46:47 nextn.hnorm 4096
46:47 nextn.shared_head_norm 4096`,
		func(c *Config) bool { return len(c.Layers) == 46 && !c.Layers[0].Sparse && c.Layers[1].Sparse },
	},
	{
		"Llama-4-Maverick", "llama4", 48, map[string]any{
			"context_length": u32(1048576), "embedding_length": u32(5120), "feed_forward_length": u32(16384),
			"attention.head_count": u32(40), "attention.head_count_kv": u32(8), "attention.key_length": u32(128), "attention.value_length": u32(128),
			"attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(500000), "rope.dimension_count": u32(128),
			"expert_count": u32(128), "expert_used_count": u32(1), "expert_feed_forward_length": u32(8192), "interleave_moe_layer_step": u32(2),
		}, `
- token_embd 5120 202048
- output_norm 5120
- output 5120 202048
* attn_norm 5120
* attn_q 5120 5120
* attn_k 5120 1024
* attn_v 5120 1024
* attn_output 5120 5120
* ffn_norm 5120
0::2 ffn_gate 5120 16384
0::2 ffn_up 5120 16384
0::2 ffn_down 16384 5120
1::2 ffn_gate_inp 5120 128
1::2 ffn_gate_exps 5120 8192 128
1::2 ffn_up_exps 5120 8192 128
1::2 ffn_down_exps 8192 5120 128
1::2 ffn_gate_shexp 5120 8192
1::2 ffn_up_shexp 5120 8192
1::2 ffn_down_shexp 8192 5120`,
		func(c *Config) bool {
			return c.Layers[2].Chunked && !c.Layers[3].Chunked && c.Layers[3].Temperature.Span == 8192
		},
	},
	{
		"Phi-4-mini", "phi3", 32, map[string]any{
			"context_length": u32(131072), "embedding_length": u32(3072), "feed_forward_length": u32(8192),
			"attention.head_count": u32(24), "attention.head_count_kv": u32(8), "attention.layer_norm_rms_epsilon": float32(1e-5),
			"attention.sliding_window": u32(262144), "rope.freq_base": float32(10000), "rope.dimension_count": u32(96),
			"rope.scaling.original_context_length": u32(4096), "rope.scaling.attn_factor": float32(1.190238),
		}, `
- token_embd 3072 200064
- output_norm 3072
- rope_factors_long 48
- rope_factors_short 48
* attn_norm 3072
* attn_qkv 3072 5120
* attn_output 3072 3072
* ffn_norm 3072
* ffn_up 3072 16384
* ffn_down 8192 3072`,
		func(c *Config) bool {
			return c.Layers[0].Rope.NRot == 96 && c.For(4096).Layers[0].Rope.Factors == "rope_factors_short.weight" &&
				c.For(4097).Layers[0].Rope.Factors == "rope_factors_long.weight"
		},
	},
	{
		"Ministral-3-8B", "mistral3", 34, map[string]any{
			"context_length": u32(262144), "embedding_length": u32(4096), "feed_forward_length": u32(14336),
			"attention.head_count": u32(32), "attention.head_count_kv": u32(8), "attention.key_length": u32(128), "attention.value_length": u32(128),
			"attention.layer_norm_rms_epsilon": float32(1e-5), "attention.temperature_scale": float32(0.1), "rope.freq_base": float32(1000000),
			"rope.dimension_count": u32(128), "rope.scaling.type": "yarn", "rope.scaling.factor": float32(16),
			"rope.scaling.original_context_length": u32(16384), "rope.scaling.yarn_beta_fast": float32(32), "rope.scaling.yarn_beta_slow": float32(1),
			"rope.scaling.yarn_log_multiplier": float32(1),
		}, `
- token_embd 4096 131072
- output_norm 4096
- output 4096 131072
* attn_norm 4096
* attn_q 4096 4096
* attn_k 4096 1024
* attn_v 4096 1024
* attn_output 4096 4096
* ffn_norm 4096
* ffn_gate 4096 14336
* ffn_up 4096 14336
* ffn_down 14336 4096`,
		func(c *Config) bool { return c.Layers[33].Temperature.Span == 16384 && c.Layers[0].Rope.Scale() == 1 },
	},
	{
		"Ling-mini-2.0", "bailingmoe2", 20, map[string]any{
			"context_length": u32(32768), "embedding_length": u32(2048), "feed_forward_length": u32(5120),
			"attention.head_count": u32(16), "attention.head_count_kv": u32(4), "attention.key_length": u32(128), "attention.value_length": u32(128),
			"attention.layer_norm_rms_epsilon": float32(1e-6), "rope.freq_base": float32(600000), "rope.dimension_count": u32(64),
			"expert_count": u32(256), "expert_used_count": u32(8), "expert_feed_forward_length": u32(512), "expert_shared_count": u32(1),
			"expert_shared_feed_forward_length": u32(512), "leading_dense_block_count": u32(1), "expert_group_count": u32(8),
			"expert_group_used_count": u32(4), "expert_gating_func": u32(2), "expert_weights_norm": true, "expert_weights_scale": float32(2.5),
		}, `
- token_embd 2048 157184
- output_norm 2048
- output 2048 157184
* attn_norm 2048
* attn_qkv 2048 3072
* attn_q_norm 128
* attn_k_norm 128
* attn_output 2048 2048
* ffn_norm 2048
0:1 ffn_gate 2048 5120
0:1 ffn_up 2048 5120
0:1 ffn_down 5120 2048
1:20 ffn_gate_inp 2048 256
1:20 exp_probs_b.bias 256
1:20 ffn_gate_exps 2048 512 256
1:20 ffn_up_exps 2048 512 256
1:20 ffn_down_exps 512 2048 256
1:20 ffn_gate_shexp 2048 512
1:20 ffn_up_shexp 2048 512
1:20 ffn_down_shexp 512 2048`,
		func(c *Config) bool {
			return c.NGroup == 8 && c.NGroupUsed == 4 && c.ExpertScale == 2.5 && c.NFFShared == 512
		},
	},
	{
		"MiniMax-M2", "minimax-m2", 62, map[string]any{
			"context_length": u32(196608), "embedding_length": u32(3072), "feed_forward_length": u32(1536),
			"attention.head_count": u32(48), "attention.head_count_kv": u32(8), "attention.key_length": u32(128), "attention.value_length": u32(128),
			"attention.layer_norm_rms_epsilon": float32(1e-6), "rope.freq_base": float32(5000000), "rope.dimension_count": u32(64),
			"expert_count": u32(256), "expert_used_count": u32(8), "expert_feed_forward_length": u32(1536), "expert_gating_func": u32(2),
		}, `
- token_embd 3072 200064
- output_norm 3072
- output 3072 200064
* attn_norm 3072
* attn_q 3072 6144
* attn_k 3072 1024
* attn_v 3072 1024
* attn_q_norm 6144
* attn_k_norm 1024
* attn_output 6144 3072
* ffn_norm 3072
* ffn_gate_inp 3072 256
* exp_probs_b.bias 256
* ffn_gate_exps 3072 1536 256
* ffn_up_exps 3072 1536 256
* ffn_down_exps 1536 3072 256`,
		func(c *Config) bool { return c.Layers[0].Rope.NRot == 64 },
	},
	{
		"ERNIE-4.5-21B-A3B", "ernie4_5-moe", 28, map[string]any{
			"context_length": u32(131072), "embedding_length": u32(2560), "feed_forward_length": u32(12288),
			"attention.head_count": u32(20), "attention.head_count_kv": u32(4), "attention.key_length": u32(128), "attention.value_length": u32(128),
			"attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(500000),
			"expert_count": u32(64), "expert_used_count": u32(6), "expert_feed_forward_length": u32(1536), "expert_shared_count": u32(2),
			"expert_shared_feed_forward_length": u32(3072), "leading_dense_block_count": u32(1), "interleave_moe_layer_step": u32(1),
		}, `
- token_embd 2560 103424
- output_norm 2560
* attn_norm 2560
* attn_q 2560 2560
* attn_k 2560 512
* attn_v 2560 512
* attn_output 2560 2560
* ffn_norm 2560
0:1 ffn_gate 2560 12288
0:1 ffn_up 2560 12288
0:1 ffn_down 12288 2560
1:28 ffn_gate_inp 2560 64
1:28 exp_probs_b.bias 64
1:28 ffn_gate_exps 2560 1536 64
1:28 ffn_up_exps 2560 1536 64
1:28 ffn_down_exps 1536 2560 64
1:28 ffn_gate_shexp 2560 3072
1:28 ffn_up_shexp 2560 3072
1:28 ffn_down_shexp 3072 2560`,
		func(c *Config) bool { return c.NFFShared == 3072 },
	},
	{
		"granite-3.1-3b-a800m", "granitemoe", 32, map[string]any{
			"context_length": u32(131072), "embedding_length": u32(1536), "feed_forward_length": u32(512),
			"attention.head_count": u32(24), "attention.head_count_kv": u32(8), "attention.layer_norm_rms_epsilon": float32(1e-6),
			"attention.scale": float32(0.015625), "embedding_scale": float32(12), "residual_scale": float32(0.22), "logit_scale": float32(6),
			"rope.freq_base": float32(10000000), "rope.dimension_count": u32(64), "expert_count": u32(40), "expert_used_count": u32(8),
		}, `
- token_embd 1536 49155
- output_norm 1536
* attn_norm 1536
* attn_q 1536 1536
* attn_k 1536 512
* attn_v 1536 512
* attn_output 1536 1536
* ffn_norm 1536
* ffn_gate_inp 1536 40
* ffn_gate_exps 1536 512 40
* ffn_up_exps 1536 512 40
* ffn_down_exps 512 1536 40`,
		func(c *Config) bool { return c.NFFShared == 0 && c.ResidualScale == 0.22 },
	},
	{
		"Qwen2-57B-A14B", "qwen2moe", 28, map[string]any{
			"context_length": u32(32768), "embedding_length": u32(3584), "feed_forward_length": u32(18944),
			"attention.head_count": u32(28), "attention.head_count_kv": u32(4), "attention.layer_norm_rms_epsilon": float32(1e-6),
			"rope.freq_base": float32(1000000), "expert_count": u32(64), "expert_used_count": u32(8),
			"expert_feed_forward_length": u32(2560), "expert_shared_feed_forward_length": u32(20480),
		}, `
- token_embd 3584 151936
- output_norm 3584
- output 3584 151936
* attn_norm 3584
* attn_q 3584 3584
* attn_q.bias 3584
* attn_k 3584 512
* attn_k.bias 512
* attn_v 3584 512
* attn_v.bias 512
* attn_output 3584 3584
* ffn_norm 3584
* ffn_gate_inp 3584 64
* ffn_gate_up_exps 3584 5120 64
* ffn_down_exps 2560 3584 64
* ffn_gate_inp_shexp 3584
* ffn_gate_shexp 3584 20480
* ffn_up_shexp 3584 20480
* ffn_down_shexp 20480 3584`,
		func(c *Config) bool { return c.NFFShared == 20480 },
	},
	{
		"Apertus-8B", "apertus", 32, map[string]any{
			"context_length": u32(65536), "embedding_length": u32(4096), "feed_forward_length": u32(21504),
			"attention.head_count": u32(32), "attention.head_count_kv": u32(8), "attention.layer_norm_rms_epsilon": float32(1e-5),
			"rope.freq_base": float32(12000000), "rope.dimension_count": u32(128),
			"/xielu.alpha_n": make([]float32, 32), "/xielu.alpha_p": make([]float32, 32), "/xielu.beta": make([]float32, 32), "/xielu.eps": make([]float32, 32),
		}, `
- token_embd 4096 131072
- output_norm 4096
- output 4096 131072
- rope_freqs 64
* attn_norm 4096
* attn_q 4096 4096
* attn_k 4096 1024
* attn_v 4096 1024
* attn_q_norm 128
* attn_k_norm 128
* attn_output 4096 4096
* ffn_norm 4096
* ffn_up 4096 21504
* ffn_down 21504 4096`,
		func(c *Config) bool { return c.Layers[0].XIELU.AlphaP > 0.69 && c.Layers[0].XIELU.AlphaP < 0.7 },
	},
}
