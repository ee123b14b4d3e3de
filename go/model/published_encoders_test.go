package model

import (
	"fmt"

	"github.com/quern-llm/quern/go/model/arch"
)

// publishedEncoders are models of texts' vectors.
var publishedEncoders = []published{
	{
		name: "all-MiniLM-L6-v2", arch: "bert", layers: 6,
		keys: map[string]any{
			"context_length": u32(512), "embedding_length": u32(384), "feed_forward_length": u32(1536),
			"attention.head_count": u32(12), "attention.layer_norm_epsilon": float32(1e-12), "attention.causal": false, "pooling_type": u32(1),
		},
		tensors: `
- token_embd 384 30522
- position_embd 384 512
- token_types 384 2
- token_embd_norm 384
- token_embd_norm.bias 384
* attn_q 384 384
* attn_q.bias 384
* attn_k 384 384
* attn_k.bias 384
* attn_v 384 384
* attn_v.bias 384
* attn_output 384 384
* attn_output.bias 384
* attn_output_norm 384
* attn_output_norm.bias 384
* layer_output_norm 384
* layer_output_norm.bias 384
* ffn_up 384 1536
* ffn_up.bias 1536
* ffn_down 1536 384
* ffn_down.bias 384`,
		check: func(c *Config) bool { return c.BothWays && c.Positions && c.Pooling == arch.PoolMean && c.NType == 2 },
	},
	{
		name: "bge-small-en-v1.5", arch: "bert", layers: 12,
		keys: map[string]any{
			"context_length": u32(512), "embedding_length": u32(384), "feed_forward_length": u32(1536),
			"attention.head_count": u32(12), "attention.layer_norm_epsilon": float32(1e-12), "attention.causal": false, "pooling_type": u32(2),
		},
		tensors: `
- token_embd 384 30522
- position_embd 384 512
- token_types 384 2
- token_embd_norm 384
- token_embd_norm.bias 384
* attn_q 384 384
* attn_q.bias 384
* attn_k 384 384
* attn_k.bias 384
* attn_v 384 384
* attn_v.bias 384
* attn_output 384 384
* attn_output.bias 384
* attn_output_norm 384
* attn_output_norm.bias 384
* layer_output_norm 384
* layer_output_norm.bias 384
* ffn_up 384 1536
* ffn_up.bias 1536
* ffn_down 1536 384
* ffn_down.bias 384`,
		check: func(c *Config) bool { return c.BothWays && c.Pooling == arch.PoolCLS },
	},
	{
		name: "bge-m3", arch: "bert", layers: 24,
		keys: map[string]any{
			"context_length": u32(8192), "embedding_length": u32(1024), "feed_forward_length": u32(4096),
			"attention.head_count": u32(16), "attention.layer_norm_epsilon": float32(1e-5), "attention.causal": false, "pooling_type": u32(2),
		},
		tensors: `
- token_embd 1024 250002
- position_embd 1024 8192
- token_types 1024 1
- token_embd_norm 1024
- token_embd_norm.bias 1024
* attn_q 1024 1024
* attn_q.bias 1024
* attn_k 1024 1024
* attn_k.bias 1024
* attn_v 1024 1024
* attn_v.bias 1024
* attn_output 1024 1024
* attn_output.bias 1024
* attn_output_norm 1024
* attn_output_norm.bias 1024
* layer_output_norm 1024
* layer_output_norm.bias 1024
* ffn_up 1024 4096
* ffn_up.bias 4096
* ffn_down 4096 1024
* ffn_down.bias 1024`,
		check: func(c *Config) bool { return c.NCtx == 8192 && c.NType == 1 && c.Layers[0].HeadDim == 64 },
	},
	{
		name: "multilingual-e5-small", arch: "bert", layers: 12,
		keys: map[string]any{
			"context_length": u32(512), "embedding_length": u32(384), "feed_forward_length": u32(1536),
			"attention.head_count": u32(12), "attention.layer_norm_epsilon": float32(1e-12), "attention.causal": false, "pooling_type": u32(1),
		},
		tensors: `
- token_embd 384 250037
- position_embd 384 512
- token_types 384 2
- token_embd_norm 384
- token_embd_norm.bias 384
* attn_q 384 384
* attn_q.bias 384
* attn_k 384 384
* attn_k.bias 384
* attn_v 384 384
* attn_v.bias 384
* attn_output 384 384
* attn_output.bias 384
* attn_output_norm 384
* attn_output_norm.bias 384
* layer_output_norm 384
* layer_output_norm.bias 384
* ffn_up 384 1536
* ffn_up.bias 1536
* ffn_down 1536 384
* ffn_down.bias 384`,
		check: func(c *Config) bool { return c.NVocab == 250037 },
	},
	{
		name: "multilingual-e5-base", arch: "bert", layers: 12,
		keys: map[string]any{
			"context_length": u32(512), "embedding_length": u32(768), "feed_forward_length": u32(3072),
			"attention.head_count": u32(12), "attention.layer_norm_epsilon": float32(1e-5), "attention.causal": false, "pooling_type": u32(1),
		},
		tensors: `
- token_embd 768 250002
- position_embd 768 512
- token_types 768 1
- token_embd_norm 768
- token_embd_norm.bias 768
* attn_q 768 768
* attn_q.bias 768
* attn_k 768 768
* attn_k.bias 768
* attn_v 768 768
* attn_v.bias 768
* attn_output 768 768
* attn_output.bias 768
* attn_output_norm 768
* attn_output_norm.bias 768
* layer_output_norm 768
* layer_output_norm.bias 768
* ffn_up 768 3072
* ffn_up.bias 3072
* ffn_down 3072 768
* ffn_down.bias 768`,
		check: func(c *Config) bool { return c.NType == 1 },
	},
	{
		name: "nomic-embed-text-v1.5", arch: "nomic-bert", layers: 12,
		keys: map[string]any{
			"context_length": u32(2048), "embedding_length": u32(768), "feed_forward_length": u32(3072),
			"attention.head_count": u32(12), "attention.layer_norm_epsilon": float32(1e-12), "attention.causal": false, "pooling_type": u32(1),
			"rope.freq_base": float32(1000),
		},
		tensors: `
- token_embd 768 30522
- token_types 768 2
- token_embd_norm 768
- token_embd_norm.bias 768
* attn_qkv 768 2304
* attn_output 768 768
* attn_output_norm 768
* attn_output_norm.bias 768
* layer_output_norm 768
* layer_output_norm.bias 768
* ffn_gate 768 3072
* ffn_up 768 3072
* ffn_down 3072 768`,
		check: func(c *Config) bool { return c.Layers[0].Rope.Base == 1000 && !c.Positions },
	},
	{
		name: "nomic-embed-text-v2-moe", arch: "nomic-bert-moe", layers: 12,
		keys: map[string]any{
			"context_length": u32(512), "embedding_length": u32(768), "feed_forward_length": u32(3072),
			"attention.head_count": u32(12), "attention.layer_norm_epsilon": float32(1e-5), "attention.causal": false, "pooling_type": u32(1),
			"rope.freq_base": float32(10000), "moe_every_n_layers": u32(2), "expert_count": u32(8), "expert_used_count": u32(2),
		},
		tensors: `
- token_embd 768 250048
- token_types 768 1
- token_embd_norm 768
- token_embd_norm.bias 768
* attn_qkv 768 2304
* attn_qkv.bias 2304
* attn_output 768 768
* attn_output.bias 768
* attn_output_norm 768
* attn_output_norm.bias 768
* layer_output_norm 768
* layer_output_norm.bias 768
0::2 ffn_up 768 3072
0::2 ffn_up.bias 3072
0::2 ffn_down 3072 768
0::2 ffn_down.bias 768
1::2 ffn_gate_inp 768 8
1::2 ffn_up_exps 768 3072 8
1::2 ffn_down_exps 3072 768 8`,
		check: func(c *Config) bool { return !c.Layers[0].Sparse && c.Layers[1].Sparse && !c.ExpertNorm },
	},
	{
		name: "jina-embeddings-v2-base-en", arch: "jina-bert-v2", layers: 12,
		keys: map[string]any{
			"context_length": u32(8192), "embedding_length": u32(768), "feed_forward_length": u32(3072),
			"attention.head_count": u32(12), "attention.layer_norm_epsilon": float32(1e-12), "attention.causal": false, "pooling_type": u32(1),
		},
		tensors: `
- token_embd 768 30528
- token_types 768 2
- token_embd_norm 768
- token_embd_norm.bias 768
* attn_q 768 768
* attn_q.bias 768
* attn_k 768 768
* attn_k.bias 768
* attn_v 768 768
* attn_v.bias 768
* attn_output 768 768
* attn_output.bias 768
* attn_output_norm 768
* attn_output_norm.bias 768
* layer_output_norm 768
* layer_output_norm.bias 768
* ffn_gate 768 3072
* ffn_up 768 3072
* ffn_down 3072 768
* ffn_down.bias 768`,
		check: func(c *Config) bool { return c.ALiBi && c.Layers[0].Rope == arch.Rope{} },
	},
	{
		name: "jina-embeddings-v3", arch: "jina-bert-v3", layers: 24,
		keys: map[string]any{
			"context_length": u32(8192), "embedding_length": u32(1024), "feed_forward_length": u32(4096),
			"attention.head_count": u32(16), "attention.layer_norm_epsilon": float32(1e-5), "attention.causal": false, "pooling_type": u32(1),
			"rope.freq_base": float32(20000),
		},
		tensors: `
- token_embd 1024 250002
- token_types 1024 1
- token_embd_norm 1024
- token_embd_norm.bias 1024
* attn_qkv 1024 3072
* attn_qkv.bias 3072
* attn_output 1024 1024
* attn_output.bias 1024
* attn_output_norm 1024
* attn_output_norm.bias 1024
* layer_output_norm 1024
* layer_output_norm.bias 1024
* ffn_up 1024 4096
* ffn_up.bias 4096
* ffn_down 4096 1024
* ffn_down.bias 1024`,
		check: func(c *Config) bool { return c.Layers[0].Rope.Base == 20000 },
	},
	{
		name: "gte-modernbert-base", arch: "modern-bert", layers: 22,
		keys: map[string]any{
			"context_length": u32(8192), "embedding_length": u32(768), "feed_forward_length": u32(1152),
			"attention.head_count": u32(12), "attention.layer_norm_epsilon": float32(1e-5), "attention.causal": false, "pooling_type": u32(2),
			"rope.freq_base": float32(160000), "rope.freq_base_swa": float32(10000), "rope.scaling.type": "none",
			"attention.sliding_window": u32(128), "attention.sliding_window_pattern": u32(3), "vocab_size": u32(50368), "hidden_activation": "gelu",
		},
		tensors: `
- token_embd 768 50368
- token_embd_norm 768
- output_norm 768
1: attn_norm 768
* attn_qkv 768 2304
* attn_output 768 768
* ffn_norm 768
* ffn_up 768 2304
* ffn_down 1152 768`,
		check: func(c *Config) bool {
			return c.Layers[0].Window == 0 && c.Layers[1].Window == 128 && c.Layers[2].Rope.Base == 10000 && c.Layers[21].Rope.Base == 160000
		},
	},
	{
		name: "embeddinggemma-300m", arch: "gemma-embedding", layers: 24,
		keys: map[string]any{
			"context_length": u32(2048), "embedding_length": u32(768), "feed_forward_length": u32(1152),
			"attention.head_count": u32(3), "attention.head_count_kv": u32(1), "attention.key_length": u32(256), "attention.value_length": u32(256),
			"attention.layer_norm_rms_epsilon": float32(1e-6), "rope.freq_base": float32(1000000), "attention.sliding_window": u32(512), "pooling_type": u32(1),
			"dense_2_feat_in": u32(768), "dense_2_feat_out": u32(3072), "dense_3_feat_in": u32(3072), "dense_3_feat_out": u32(768),
		},
		tensors: `
- token_embd 768 262144
- output_norm 768
- dense_2 768 3072
- dense_3 3072 768
* attn_norm 768
* attn_q 768 768
* attn_k 768 256
* attn_v 768 256
* attn_q_norm 256
* attn_k_norm 256
* attn_output 768 768
* post_attention_norm 768
* ffn_norm 768
* ffn_gate 768 1152
* ffn_up 768 1152
* ffn_down 1152 768
* post_ffw_norm 768`,
		check: func(c *Config) bool {
			return c.BothWays && c.NDense == 3072 && c.Layers[4].Window == 512 && c.Layers[5].Window == 0
		},
	},
	{
		name: "t5-v1_1-xxl", arch: "t5encoder", layers: 24,
		keys: map[string]any{
			"context_length": u32(512), "embedding_length": u32(4096), "feed_forward_length": u32(10240),
			"attention.head_count": u32(64), "attention.key_length": u32(64), "attention.value_length": u32(64),
			"attention.layer_norm_epsilon": float32(1e-6), "attention.layer_norm_rms_epsilon": float32(1e-6), "attention.relative_buckets_count": u32(32),
		},
		tensors: `
- token_embd 4096 32128
- enc.output_norm 4096
0:1 attn_rel_b 64 32
* attn_norm 4096
* attn_q 4096 4096
* attn_k 4096 4096
* attn_v 4096 4096
* attn_o 4096 4096
* ffn_norm 4096
* ffn_gate 4096 10240
* ffn_up 4096 10240
* ffn_down 10240 4096`,
		check: func(c *Config) bool { return c.NBucket == 32 && c.Layers[0].AttnScale == 1 },
	},
	t5("flan-t5-base", 12, 768, 2048, 12, true),
	t5("mt5-small", 8, 512, 1024, 6, true),
	t5("t5-large", 24, 1024, 4096, 16, false),
}

// t5 is a model with heads of 64; with a gate it has an output matrix of its own as well.
func t5(name string, layers, width, ff, heads uint32, gate bool) published {
	p := published{
		name: name, arch: "t5", layers: int(layers),
		keys: map[string]any{
			"context_length": u32(512), "embedding_length": width, "feed_forward_length": ff, "decoder_block_count": layers,
			"attention.head_count": heads, "attention.key_length": u32(64), "attention.value_length": u32(64),
			"attention.layer_norm_epsilon": float32(1e-6), "attention.layer_norm_rms_epsilon": float32(1e-6), "attention.relative_buckets_count": u32(32),
			"decoder_start_token_id": u32(0),
		},
		check: func(c *Config) bool {
			return len(c.Encoder) == int(layers) && c.NBucket == 32 && c.Layers[0].AttnScale == 1 && c.Start == 0
		},
	}
	tensor := func(layers, name string, dims ...uint32) {
		p.tensors += fmt.Sprintln(append([]any{layers, name}, anys(dims)...)...)
	}
	tensor("-", "token_embd", width, 32128)
	tensor("-", "enc.output_norm", width)
	tensor("-", "dec.output_norm", width)
	if gate {
		tensor("-", "output", width, 32128)
	}
	layer := func(which, stem string, first bool) {
		if first {
			tensor(which, stem+"attn_rel_b", heads, 32)
		}
		for _, norm := range []string{"attn_norm", "ffn_norm"} {
			tensor(which, stem+norm, width)
		}
		for _, x := range []string{"q", "k", "v"} {
			tensor(which, stem+"attn_"+x, width, 64*heads)
		}
		tensor(which, stem+"attn_o", 64*heads, width)
		if gate {
			tensor(which, stem+"ffn_gate", width, ff)
		}
		tensor(which, stem+"ffn_up", width, ff)
		tensor(which, stem+"ffn_down", ff, width)
	}
	for il := range layers {
		layer("-", fmt.Sprintf("enc.blk.%d.", il), il == 0)
	}
	tensor("0:1", "attn_rel_b", heads, 32)
	tensor("0:1", "cross_attn_rel_b", heads, 32) // which some files have, and which is not used
	layer("*", "", false)
	tensor("*", "cross_attn_norm", width)
	for _, x := range []string{"q", "k", "v"} {
		tensor("*", "cross_attn_"+x, width, 64*heads)
	}
	tensor("*", "cross_attn_o", 64*heads, width)
	return p
}

func anys(list []uint32) (out []any) {
	for _, v := range list {
		out = append(out, v)
	}
	return out
}
