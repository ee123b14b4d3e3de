package model

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/kernel"
)

// A kinShape is the sizes in which published models differ that are much like Llama or GPT-2.
type kinShape struct {
	name, arch             string
	layers, embd, heads    int
	headsKV, headDim       int // 0: as many as heads, and the width over them
	ff, vocab              int
	layerNorm              bool           // norms have a mean and a bias
	fused, bias, gate      bool           // queries, keys and values are one matrix; they have biases; the feed-forward has a gate
	biases, tied, bareNorm bool           // biases elsewhere; embeddings are the output; norms have nothing in files
	experts, used, ffExp   int            // 0: none
	shared, dense          int            // width of shared experts; first layers without any
	more                   map[string]any // keys
	extra                  string         // tensors
	check                  func(c *Config) bool
}

// publishedKin are files of such models.
func publishedKin() []published {
	var all []published
	for _, s := range []kinShape{
		{name: "Qwen2.5-VL-7B", arch: "qwen2vl", layers: 28, embd: 3584, heads: 28, headsKV: 4, ff: 18944, vocab: 152064, gate: true, bias: true,
			more: map[string]any{"rope.freq_base": float32(1e6), "rope.dimension_sections": []int32{16, 24, 24, 0}}, check: halves},
		{name: "Qwen3-VL-30B-A3B", arch: "qwen3vlmoe", layers: 48, embd: 2048, heads: 32, headsKV: 4, headDim: 128, ff: 6144, vocab: 151936,
			experts: 128, used: 8, ffExp: 768, extra: "* attn_q_norm 128\n* attn_k_norm 128",
			more:  map[string]any{"rope.freq_base": float32(5e6), "rope.dimension_sections": []int32{24, 20, 20, 0}, "n_deepstack_layers": u32(3)},
			check: func(c *Config) bool { return halves(c) && c.ExpertNorm }},
		{name: "internlm2_5-7b", arch: "internlm2", layers: 32, embd: 4096, heads: 32, headsKV: 8, ff: 14336, vocab: 92544, gate: true,
			more: map[string]any{"rope.freq_base": float32(1e6)}, check: neighbours},
		{name: "XVERSE-7B", arch: "xverse", layers: 32, embd: 4096, heads: 32, ff: 11008, vocab: 100534, gate: true, check: neighbours},
		{name: "EXAONE-3.5-7.8B", arch: "exaone", layers: 32, embd: 4096, heads: 32, headsKV: 8, ff: 14336, vocab: 102400, gate: true,
			more: map[string]any{"rope.freq_base": float32(1e6), "rope.dimension_count": u32(128)}, extra: "- rope_freqs 64", check: halves},
		{name: "K-EXAONE-236B-A23B", arch: "exaone-moe", layers: 48, embd: 6144, heads: 64, headsKV: 8, headDim: 128, ff: 18432, vocab: 153600,
			experts: 128, used: 8, ffExp: 2048, shared: 2048, dense: 1, extra: "1:48 exp_probs_b.bias 128\n* attn_q_norm 128\n* attn_k_norm 128",
			more: map[string]any{
				"expert_gating_func": u32(2), "expert_weights_norm": true, "expert_weights_scale": float32(2.5), "attention.sliding_window": u32(128),
				"attention.sliding_window_pattern": windowedBut(48, 4), "rope.scaling.type": "none", "rope.freq_base": float32(1e6),
			},
			check: func(c *Config) bool {
				return halves(c) && c.Layers[2].Window == 128 && c.Layers[3].Window == 0 && c.Layers[3].Rope.Style == kernel.RopeNone
			}},
		{name: "Qwen-7B", arch: "qwen", layers: 32, embd: 4096, heads: 32, ff: 11008, vocab: 151936, gate: true, fused: true, bias: true,
			more:  map[string]any{"feed_forward_length": u32(22016), "rope.dimension_count": u32(128)},
			check: func(c *Config) bool { return halves(c) && c.Layers[31].NFF == 11008 }},
		{name: "Orion-14B", arch: "orion", layers: 40, embd: 5120, heads: 40, ff: 15360, vocab: 84608, gate: true, layerNorm: true, check: halves},
		{name: "Baichuan2-7B", arch: "baichuan", layers: 32, embd: 4096, heads: 32, ff: 11008, vocab: 125696, gate: true,
			more: map[string]any{"rope.dimension_count": u32(128)}, check: neighbours},
		{name: "Baichuan2-13B", arch: "baichuan", layers: 40, embd: 5120, heads: 40, ff: 13696, vocab: 125696, gate: true,
			more: map[string]any{"rope.dimension_count": u32(128)}, check: slopes},
		{name: "gpt2", arch: "gpt2", layers: 12, embd: 768, heads: 12, ff: 3072, vocab: 50257, layerNorm: true, fused: true, bias: true, biases: true, tied: true,
			more: map[string]any{"context_length": u32(1024)}, extra: "- position_embd 768 1024", check: positioned},
		{name: "starcoderbase-1b", arch: "starcoder", layers: 24, embd: 2048, heads: 16, headsKV: 1, ff: 8192, vocab: 49152, layerNorm: true,
			fused: true, bias: true, biases: true, tied: true, more: map[string]any{"context_length": u32(8192)}, extra: "- position_embd 2048 8192", check: positioned},
		{name: "falcon-7b", arch: "falcon", layers: 32, embd: 4544, heads: 71, headsKV: 1, ff: 18176, vocab: 65024, layerNorm: true, fused: true, check: halves},
		{name: "falcon-40b", arch: "falcon", layers: 60, embd: 8192, heads: 128, headsKV: 8, ff: 32768, vocab: 65024, layerNorm: true, fused: true,
			extra: "* attn_norm_2 8192\n* attn_norm_2.bias 8192", check: halves},
		{name: "pythia-1.4b", arch: "gptneox", layers: 24, embd: 2048, heads: 16, ff: 8192, vocab: 50304, layerNorm: true, fused: true, bias: true, biases: true,
			more:  map[string]any{"use_parallel_residual": true, "rope.dimension_count": u32(32)},
			check: func(c *Config) bool { return halves(c) && c.Parallel && c.Layers[0].Rope.NRot == 32 }},
		{name: "bloom-560m", arch: "bloom", layers: 24, embd: 1024, heads: 16, ff: 4096, vocab: 250880, layerNorm: true, fused: true, bias: true, biases: true,
			tied: true, extra: "- token_embd_norm 1024\n- token_embd_norm.bias 1024", check: slopes},
		{name: "mpt-7b", arch: "mpt", layers: 32, embd: 4096, heads: 32, ff: 16384, vocab: 50432, fused: true, tied: true,
			more: map[string]any{"attention.max_alibi_bias": float32(8), "attention.layer_norm_epsilon": float32(1e-5)}, check: slopes},
		{name: "OLMo-7B", arch: "olmo", layers: 32, embd: 4096, heads: 32, ff: 11008, vocab: 50304, gate: true, bareNorm: true,
			more: map[string]any{"attention.layer_norm_epsilon": float32(1e-5)}, check: neighbours},
		{name: "OLMo-1.7-7B", arch: "olmo", layers: 32, embd: 4096, heads: 32, ff: 11008, vocab: 50304, gate: true, bareNorm: true,
			more:  map[string]any{"attention.layer_norm_epsilon": float32(1e-5), "attention.clamp_kqv": float32(8)},
			check: func(c *Config) bool { return neighbours(c) && c.AttnLimit == 8 }},
		{name: "dbrx-instruct", arch: "dbrx", layers: 40, embd: 6144, heads: 48, headsKV: 8, ff: 10752, vocab: 100352, fused: true,
			experts: 16, used: 4, ffExp: 10752,
			more:  map[string]any{"attention.layer_norm_epsilon": float32(1e-5), "attention.clamp_kqv": float32(8), "rope.freq_base": float32(5e5)},
			check: func(c *Config) bool { return halves(c) && c.AttnLimit == 8 && c.ExpertNorm && c.NFFExpert == 10752 }},
		{name: "MiniCPM-2B", arch: "minicpm", layers: 40, embd: 2304, heads: 36, ff: 5760, vocab: 122753, gate: true, tied: true,
			check: func(c *Config) bool { return neighbours(c) && c.EmbedScale == 12 && c.LogitScale == 256./2304 }},
		{name: "Trinity-Mini", arch: "afmoe", layers: 32, embd: 2048, heads: 32, headsKV: 4, headDim: 128, ff: 6144, vocab: 200192,
			experts: 128, used: 8, ffExp: 1024, shared: 1024, dense: 2,
			more: map[string]any{
				"expert_weights_norm": true, "expert_weights_scale": float32(2.826), "attention.sliding_window": u32(2048),
			},
			extra: "2:32 exp_probs_b.bias 128\n* attn_q_norm 128\n* attn_k_norm 128\n* attn_gate 2048 4096\n* post_attention_norm 2048\n* post_ffw_norm 2048",
			check: func(c *Config) bool {
				return halves(c) && c.Layers[3].Rope.Style == kernel.RopeNone && c.Layers[4].Window == 2048 && c.ExpertNorm && c.ExpertGating == kernel.GateSigmoid
			}},
		{name: "Ling-lite", arch: "bailingmoe", layers: 28, embd: 2048, heads: 16, headsKV: 4, headDim: 128, ff: 5632, vocab: 126464,
			experts: 64, used: 6, ffExp: 1408, shared: 2816, more: map[string]any{"expert_weights_norm": true, "leading_dense_block_count": u32(0)},
			check: func(c *Config) bool { return neighbours(c) && c.ExpertNorm && c.NFFShared == 2816 }},
		{name: "Refact-1_6B-fim", arch: "refact", layers: 32, embd: 2048, heads: 32, headsKV: 1, ff: 5632, vocab: 49216, gate: true, check: slopes},
		{name: "CodeShell-7B", arch: "codeshell", layers: 42, embd: 4096, heads: 32, headsKV: 8, ff: 16384, vocab: 70144, layerNorm: true,
			fused: true, bias: true, biases: true, more: map[string]any{"rope.scaling.type": "linear", "rope.scaling.factor": float32(1)}, check: halves},
		{name: "jais-13b", arch: "jais", layers: 40, embd: 5120, heads: 40, ff: 13653, vocab: 84992, layerNorm: true, fused: true, bias: true, biases: true, gate: true,
			more: map[string]any{"attention.max_alibi_bias": float32(8)}, extra: "* ffn_gate.bias 13653",
			check: func(c *Config) bool { return slopes(c) && c.Layers[0].AttnScale == 1./128 }},
		{name: "SmallThinker-21B-A3B", arch: "smallthinker", layers: 52, embd: 2560, heads: 28, headsKV: 4, headDim: 128, ff: 768, vocab: 151936,
			experts: 64, used: 6, ffExp: 768,
			more: map[string]any{"expert_gating_func": u32(2), "attention.sliding_window": u32(4096), "rope.freq_base": float32(1.5e6)},
			check: func(c *Config) bool {
				return halves(&Config{Layers: c.Layers[1:]}) && c.Layers[0].Rope.Style == kernel.RopeNone && c.Layers[3].Window == 4096 && c.Layers[4].Window == 0 &&
					c.ExpertGating == kernel.GateSigmoid && c.ExpertNorm
			}},
		{name: "DeepSeek-OCR", arch: "deepseek2-ocr", layers: 12, embd: 1280, heads: 10, ff: 6848, vocab: 129280, experts: 64, used: 6, ffExp: 896, shared: 1792, dense: 1,
			more: map[string]any{"expert_gating_func": u32(1), "expert_weights_norm": false},
			check: func(c *Config) bool {
				return halves(c) && !c.ExpertNorm && c.NFFShared == 1792 && !c.Layers[0].Sparse
			}},
		{name: "PaddleOCR-VL-0.9B", arch: "paddleocr", layers: 18, embd: 1024, heads: 16, headsKV: 2, headDim: 128, ff: 3072, vocab: 103424, gate: true,
			more: map[string]any{"rope.freq_base": float32(5e5), "rope.dimension_sections": []int32{16, 24, 24, 0}}, check: halves},
		{name: "HunyuanOCR", arch: "hunyuan_vl", layers: 24, embd: 1024, heads: 16, headsKV: 8, headDim: 128, ff: 3584, vocab: 120818, gate: true, tied: true,
			more:  map[string]any{"rope.scaling.alpha": float32(1000), "rope.dimension_sections": []int32{16, 16, 16, 16}},
			extra: "* attn_q_norm 128\n* attn_k_norm 128",
			check: func(c *Config) bool { return halves(c) && math.Abs(c.Layers[0].Rope.Base/11158840-1) < 1e-4 }},
		{name: "EuroBERT-210m", arch: "eurobert", layers: 12, embd: 768, heads: 12, ff: 3072, vocab: 128256, gate: true, tied: true,
			more: map[string]any{"rope.freq_base": float32(250000), "attention.causal": false}, check: func(c *Config) bool { return halves(c) && c.BothWays }},
	} {
		all = append(all, s.published())
	}
	return append(all, published{
		"MiniCPM3-4B", "minicpm3", 62, map[string]any{
			"context_length": u32(32768), "embedding_length": u32(2560), "feed_forward_length": u32(6400),
			"attention.head_count": u32(40), "attention.head_count_kv": u32(40), "attention.layer_norm_rms_epsilon": float32(1e-5),
			"attention.q_lora_rank": u32(768), "attention.kv_lora_rank": u32(256), "attention.key_length": u32(96), "rope.dimension_count": u32(32),
		}, `
- token_embd 2560 73448
- output_norm 2560
- rope_factors_long 16
- rope_factors_short 16
* attn_norm 2560
* attn_q_a 2560 768
* attn_q_a_norm 768
* attn_q_b 768 3840
* attn_kv_a_mqa 2560 288
* attn_kv_a_norm 256
* attn_kv_b 256 5120
* attn_output 2560 2560
* ffn_norm 2560
* ffn_gate 2560 6400
* ffn_up 2560 6400
* ffn_down 6400 2560`,
		func(c *Config) bool { return halves(c) && c.Latent.ValueDim == 64 && c.LogitScale == 0.1 },
	})
}

func halves(c *Config) bool     { return c.Layers[0].Rope.Style == kernel.RopeNeox }
func neighbours(c *Config) bool { return c.Layers[0].Rope.Style == kernel.RopeNorm }
func slopes(c *Config) bool     { return c.ALiBi && c.Layers[0].Rope.Style == kernel.RopeNone }
func positioned(c *Config) bool { return c.Positions && c.Layers[0].Rope.Style == kernel.RopeNone }

// windowedBut is the pattern of n layers of which all have a window but every m-th.
func windowedBut(n, m int) []bool {
	all := make([]bool, n)
	for il := range all {
		all[il] = (il+1)%m != 0
	}
	return all
}

func (s kinShape) published() published {
	if s.headsKV == 0 {
		s.headsKV = s.heads
	}
	keys := map[string]any{
		"context_length": u32(4096), "embedding_length": u32(s.embd), "feed_forward_length": u32(s.ff),
		"attention.head_count": u32(s.heads), "attention.head_count_kv": u32(s.headsKV),
	}
	if s.layerNorm {
		keys["attention.layer_norm_epsilon"] = float32(1e-5)
	} else {
		keys["attention.layer_norm_rms_epsilon"] = float32(1e-6)
	}
	if s.headDim > 0 {
		keys["attention.key_length"], keys["attention.value_length"] = u32(s.headDim), u32(s.headDim)
	} else {
		s.headDim = s.embd / s.heads
	}
	if s.experts > 0 {
		maps.Copy(keys, map[string]any{
			"expert_count": u32(s.experts), "expert_used_count": u32(s.used), "expert_feed_forward_length": u32(s.ffExp),
			"leading_dense_block_count": u32(s.dense),
		})
	}
	maps.Copy(keys, s.more)
	return published{s.name, s.arch, s.layers, keys, s.tensors(), s.check}
}

// tensors lists the tensors of the model.
func (s kinShape) tensors() string {
	var lines []string
	vector := func(layers string, n int, names ...string) {
		for _, name := range names {
			lines = append(lines, fmt.Sprintf("%s %s %d", layers, name, n))
		}
	}
	add := func(layers string, bias bool, in, out int, names ...string) {
		for _, name := range names {
			lines = append(lines, fmt.Sprintf("%s %s %d %d", layers, name, in, out))
			if bias {
				vector(layers, out, name+".bias")
			}
		}
	}
	q, kv := s.heads*s.headDim, s.headsKV*s.headDim
	add("-", false, s.embd, s.vocab, "token_embd")
	if !s.tied {
		add("-", false, s.embd, s.vocab, "output")
	}
	if !s.bareNorm {
		names := "attn_norm ffn_norm"
		if s.arch == "falcon" {
			names = "attn_norm"
		} else if s.arch == "dbrx" {
			names = "attn_norm attn_output_norm"
		}
		vector("-", s.embd, "output_norm")
		vector("*", s.embd, strings.Fields(names)...)
		if s.layerNorm {
			vector("-", s.embd, "output_norm.bias")
			vector("*", s.embd, strings.Fields(strings.ReplaceAll(names, "_norm", "_norm.bias"))...)
		}
	}
	if s.fused {
		add("*", s.bias, s.embd, q+2*kv, "attn_qkv")
	} else {
		add("*", s.bias, s.embd, q, "attn_q")
		add("*", s.bias, s.embd, kv, "attn_k", "attn_v")
	}
	add("*", s.biases, q, s.embd, "attn_output")
	dense := "*"
	if s.experts > 0 {
		dense = fmt.Sprintf("0:%d", s.dense)
		sparse := fmt.Sprintf("%d:%d", s.dense, s.layers)
		add(sparse, false, s.embd, s.experts, "ffn_gate_inp")
		lines = append(lines, fmt.Sprintf("%s ffn_gate_exps %d %d %d", sparse, s.embd, s.ffExp, s.experts),
			fmt.Sprintf("%s ffn_up_exps %d %d %d", sparse, s.embd, s.ffExp, s.experts),
			fmt.Sprintf("%s ffn_down_exps %d %d %d", sparse, s.ffExp, s.embd, s.experts))
		if s.shared > 0 {
			add(sparse, false, s.embd, s.shared, "ffn_gate_shexp", "ffn_up_shexp")
			add(sparse, false, s.shared, s.embd, "ffn_down_shexp")
		}
	}
	if s.gate || s.experts > 0 {
		add(dense, false, s.embd, s.ff, "ffn_gate")
	}
	add(dense, s.biases, s.embd, s.ff, "ffn_up")
	add(dense, s.biases, s.ff, s.embd, "ffn_down")
	if s.extra != "" {
		lines = slices.Concat(lines, strings.Split(s.extra, "\n"))
	}
	return strings.Join(lines, "\n")
}
