package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/arch"
)

// A headGated is the sizes of a published model that has a gate for each head, and heads that differ from layer to layer.
type headGated struct {
	name, arch                 string
	layers, embd, headDim      int
	heads, inWindows           int // of queries: in layers that see all, and in the others
	headsKV, ff, vocab         int
	rotated, rotatedInWindows  int // as the file says
	experts, ffExp, dense      int // 0: none
	next                       int // blocks that predict further tokens, which have a window
	norms, apart, wide, factor bool
	more                       map[string]any
	check                      func(c *Config) bool
}

// publishedGates are files of such models. The first layer of four sees all positions, or the last.
func publishedGates() []published {
	var all []published
	for _, s := range []headGated{
		{name: "Step-3.5-Flash", arch: "step35", layers: 45, embd: 4096, headDim: 128, heads: 64, inWindows: 96, headsKV: 8, ff: 11264, vocab: 128896,
			rotated: 128, experts: 288, ffExp: 1280, dense: 3, next: 3, norms: true, apart: true, factor: true,
			more: map[string]any{
				"rope.freq_base": float32(5e6), "rope.freq_base_swa": float32(1e4), "expert_weights_scale": float32(3), "expert_weights_norm": true,
				"swiglu_clamp_exp": repeat(float32(7), 48), "swiglu_clamp_shexp": repeat(float32(16), 48), "moe_every_n_layers": u32(1),
			},
			check: func(c *Config) bool {
				all, near := c.Layers[4], c.Layers[5]
				return all.Window == 0 && all.Rope.NRot == 64 && all.Rope.Base == 5e6 && near.Window == 512 && near.Rope.NRot == 128 && near.Rope.Base == 1e4 &&
					near.NHead == 96 && near.ExpertLimit == 7 && near.SharedLimit == 16 && c.LimitFn && c.ExpertGating == kernel.GateSigmoid && len(c.NextLayers) > 0 && c.NextLayers[0].NHead == 96
			}},
		{name: "Laguna-XS.2", arch: "laguna", layers: 40, embd: 2048, headDim: 128, heads: 48, inWindows: 64, headsKV: 8, ff: 8192, vocab: 100352,
			rotated: 64, rotatedInWindows: 128, experts: 256, ffExp: 512, dense: 1, norms: true, apart: true,
			more: map[string]any{
				"rope.freq_base": float32(5e5), "rope.freq_base_swa": float32(1e4), "expert_weights_scale": float32(2.5), "expert_weights_norm": true,
				"rope.scaling.type": "yarn", "rope.scaling.factor": float32(32), "rope.scaling.original_context_length": u32(4096),
				"rope.scaling.yarn_beta_fast": float32(64), "rope.scaling.yarn_beta_slow": float32(1),
			},
			check: func(c *Config) bool {
				all, near := c.Layers[8], c.Layers[9]
				return all.HeadGates && all.Window == 0 && all.Rope.NRot == 64 && all.Rope.Scaling.Type == "yarn" && all.Rope.Scaling.BetaFast == 64 &&
					near.HeadGates && near.NHead == 64 && near.Rope.NRot == 128 && near.Rope.Scaling == (arch.Scaling{Type: "none", Factor: 1})
			}},
		{name: "Laguna-M.1", arch: "laguna", layers: 70, embd: 3072, headDim: 128, heads: 48, headsKV: 8, ff: 12288, vocab: 100352, rotated: 128,
			experts: 256, ffExp: 1024, dense: 3, norms: true, apart: true, wide: true,
			more:  map[string]any{"rope.freq_base": float32(5e5), "expert_weights_scale": float32(2.5), "expert_weights_norm": true},
			check: func(c *Config) bool { return !c.Layers[1].HeadGates && c.Layers[1].Window == 0 && c.ExpertNorm }},
		{name: "Spark-X2.5-1.7B", arch: "spark2_5", layers: 28, embd: 2048, headDim: 256, heads: 8, inWindows: 8, headsKV: 2, ff: 6656, vocab: 133120,
			rotated: 64, rotatedInWindows: 256, check: sparkRotations},
		{name: "Spark-X2.5-4B", arch: "spark2_5", layers: 36, embd: 2560, headDim: 256, heads: 16, inWindows: 16, headsKV: 4, ff: 10240, vocab: 131072,
			rotated: 64, rotatedInWindows: 256, check: sparkRotations},
	} {
		all = append(all, s.published())
	}
	return append(append(all, publishedNewest...), ling3Tiny(), dots3Note())
}

func sparkRotations(c *Config) bool {
	return halves(c) && c.Layers[0].Window == 512 && c.Layers[0].Rope.NRot == 256 && c.Layers[3].Window == 0 && c.Layers[3].Rope.NRot == 64
}

func repeat[T any](v T, n int) []T { return slices.Repeat([]T{v}, n) }

func (s headGated) published() published {
	n, last := s.layers+s.next, s.arch == "spark2_5"
	heads, windows := make([]int32, n), make([]bool, n)
	for il := range n {
		windows[il] = s.inWindows > 0 && (last && il%4 != 3 || !last && il%4 != 0)
		if heads[il] = int32(s.heads); windows[il] {
			heads[il] = int32(s.inWindows)
		}
	}
	keys := map[string]any{
		"context_length": u32(131072), "embedding_length": u32(s.embd), "feed_forward_length": u32(s.ff), "attention.head_count": heads,
		"attention.head_count_kv": u32(s.headsKV), "attention.key_length": u32(s.headDim), "attention.value_length": u32(s.headDim),
		"attention.layer_norm_rms_epsilon": float32(1e-6), "rope.dimension_count": u32(s.rotated), "rope.freq_base": float32(1e6),
	}
	if s.inWindows > 0 {
		keys["attention.sliding_window"], keys["attention.sliding_window_pattern"] = u32(512), windows
	}
	if s.rotatedInWindows > 0 {
		keys["rope.dimension_count_swa"] = u32(s.rotatedInWindows)
	}
	if s.next > 0 {
		keys["nextn_predict_layers"] = u32(s.next)
	}
	if s.experts > 0 {
		keys["expert_count"], keys["expert_used_count"], keys["expert_feed_forward_length"] = u32(s.experts), u32(8), u32(s.ffExp)
		keys["leading_dense_block_count"], keys["expert_shared_feed_forward_length"] = u32(s.dense), u32(s.ffExp)
	}
	for k, v := range s.more {
		keys[k] = v
	}
	var lines []string
	add := func(layers string, dims []int, names ...string) {
		for _, name := range names {
			lines = append(lines, layers+" "+name+" "+strings.Trim(fmt.Sprint(dims), "[]"))
		}
	}
	add("-", []int{s.embd, s.vocab}, "token_embd", "output")
	add("-", []int{s.embd}, "output_norm")
	if s.factor {
		add("-", []int{s.headDim / 2}, "rope_freqs")
	}
	add("*", []int{s.embd}, "attn_norm", "ffn_norm")
	kv := s.headsKV * s.headDim
	for il, h := range heads {
		one, q := fmt.Sprintf("%d:%d", il, il+1), int(h)*s.headDim
		if s.apart {
			add(one, []int{s.embd, q}, "attn_q")
			add(one, []int{s.embd, kv}, "attn_k", "attn_v")
		} else {
			add(one, []int{s.embd, q + 2*kv}, "attn_qkv")
		}
		if s.wide {
			add(one, []int{s.embd, q}, "attn_gate")
		} else {
			add(one, []int{s.embd, int(h)}, "attn_gate")
		}
		add(one, []int{q, s.embd}, "attn_output")
	}
	if s.norms {
		add("*", []int{s.headDim}, "attn_q_norm", "attn_k_norm")
	}
	dense := []string{"*"}
	if s.experts > 0 {
		sparse := fmt.Sprintf("%d:%d", s.dense, s.layers)
		dense = []string{fmt.Sprintf("0:%d", s.dense), fmt.Sprintf("%d:", s.layers)}
		add(sparse, []int{s.embd, s.experts}, "ffn_gate_inp")
		add(sparse, []int{s.experts}, "exp_probs_b.bias")
		add(sparse, []int{s.embd, s.ffExp, s.experts}, "ffn_gate_exps", "ffn_up_exps")
		add(sparse, []int{s.ffExp, s.embd, s.experts}, "ffn_down_exps")
		add(sparse, []int{s.embd, s.ffExp}, "ffn_gate_shexp", "ffn_up_shexp")
		add(sparse, []int{s.ffExp, s.embd}, "ffn_down_shexp")
	}
	for _, layers := range dense {
		add(layers, []int{s.embd, s.ff}, "ffn_gate", "ffn_up")
		add(layers, []int{s.ff, s.embd}, "ffn_down")
	}
	if s.next > 0 {
		add(fmt.Sprintf("%d:", s.layers), []int{2 * s.embd, s.embd}, "nextn.eh_proj")
		add(fmt.Sprintf("%d:", s.layers), []int{s.embd}, "nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm")
		add(fmt.Sprintf("%d:", s.layers), []int{s.embd, s.vocab}, "nextn.shared_head_head")
	}
	return published{s.name, s.arch, n, keys, strings.Join(lines, "\n"), s.check}
}

// publishedNewest are files of models that have little in common.
var publishedNewest = []published{
	{"grok-2", "grok", 64, map[string]any{
		"context_length": u32(131072), "embedding_length": u32(8192), "feed_forward_length": u32(32768), "attention.head_count": u32(64),
		"attention.head_count_kv": u32(8), "attention.layer_norm_rms_epsilon": float32(1e-5), "expert_count": u32(8), "expert_used_count": u32(2),
		"expert_feed_forward_length": u32(16384), "rope.freq_base": float32(208533496), "rope.scaling.type": "yarn", "rope.scaling.factor": float32(16),
		"rope.scaling.original_context_length": u32(8192), "rope.scaling.yarn_ext_factor": float32(1), "rope.scaling.yarn_attn_factor": float32(1),
		"rope.scaling.yarn_beta_fast": float32(8), "rope.scaling.yarn_beta_slow": float32(1), "attention.temperature_length": u32(1024),
		"attention.output_scale": float32(0.08838834764831845), "embedding_scale": float32(90.50966799187809), "logit_scale": float32(0.5),
		"attn_logit_softcapping": float32(30), "router_logit_softcapping": float32(30), "final_logit_softcapping": float32(50),
	}, `
- token_embd 8192 131072
- output_norm 8192
- output 8192 131072
* attn_norm 8192
* attn_q 8192 8192
* attn_k 8192 1024
* attn_v 8192 1024
* attn_output 8192 8192
* attn_output_norm 8192
* ffn_norm 8192
* post_ffw_norm 8192
* ffn_gate 8192 32768
* ffn_up 8192 32768
* ffn_down 32768 8192
* ffn_gate_inp 8192 8
* ffn_gate_exps 8192 16384 8
* ffn_up_exps 8192 16384 8
* ffn_down_exps 16384 8192 8`,
		func(c *Config) bool {
			return halves(c) && c.AttnCap == 30 && c.RouterCap == 30 && c.LogitCap == 50 && c.Layers[63].Temperature.Beyond == 1024 && c.NFFExpert == 16384
		}},
	{"talkie-1930-13b-it", "talkie", 40, map[string]any{
		"context_length": u32(4096), "embedding_length": u32(5120), "feed_forward_length": u32(13696), "attention.head_count": u32(40),
		"attention.head_count_kv": u32(40), "attention.layer_norm_rms_epsilon": float32(1.1920929e-07), "rope.freq_base": float32(1e6),
		"rope.dimension_count": u32(128), "logit_scale": float32(0.3),
	}, `
- token_embd 5120 65536
- output 5120 65536
* attn_q 5120 5120
* attn_k 5120 5120
* attn_v 5120 5120
* attn_output 5120 5120
* attn_output.scale 1
* attn_q_norm 1 40
* ffn_gate 5120 13696
* ffn_up 5120 13696
* ffn_down 13696 5120
* ffn_down.scale 1
* layer_output_scale 1`,
		func(c *Config) bool { return halves(c) && c.BareNorms && c.EmbedNorm }},
	{"chameleon-7b", "chameleon", 32, map[string]any{
		"context_length": u32(4096), "embedding_length": u32(4096), "feed_forward_length": u32(11008), "attention.head_count": u32(32),
		"attention.head_count_kv": u32(32), "attention.layer_norm_rms_epsilon": float32(1e-5), "rope.dimension_count": u32(128), "swin_norm": false,
	}, `
- token_embd 4096 65536
- output_norm 4096
- output 4096 65536
* attn_norm 4096
* attn_q 4096 4096
* attn_k 4096 4096
* attn_v 4096 4096
* attn_output 4096 4096
* attn_q_norm 128 32
* attn_q_norm.bias 128 32
* attn_k_norm 128 32
* attn_k_norm.bias 128 32
* ffn_norm 4096
* ffn_gate 4096 11008
* ffn_up 4096 11008
* ffn_down 11008 4096`,
		func(c *Config) bool { return neighbours(c) && !c.Behind && c.Unsaid == [2]int{4, 8196} }},
	{"cogvlm-chat-hf", "cogvlm", 32, map[string]any{
		"context_length": u32(2048), "embedding_length": u32(4096), "feed_forward_length": u32(11008), "attention.head_count": u32(32),
		"attention.layer_norm_rms_epsilon": float32(1e-5), "rope.dimension_count": u32(128),
	}, `
- token_embd 4096 32000
- output_norm 4096
- output 4096 32000
* attn_norm 4096
* attn_qkv 4096 12288
* attn_output 4096 4096
* vis_attn_qkv 4096 12288
* vis_attn_output 4096 4096
* ffn_norm 4096
* ffn_gate 4096 11008
* ffn_up 4096 11008
* ffn_down 11008 4096
* vis_gate 4096 11008
* vis_up 4096 11008
* vis_down 11008 4096`, halves},
	{"MiniMax-M1-80k", "minimax-01", 80, map[string]any{
		"context_length": u32(10240000), "embedding_length": u32(6144), "feed_forward_length": u32(9216), "attention.head_count": u32(64),
		"attention.head_count_kv": u32(8), "attention.key_length": u32(128), "attention.value_length": u32(128),
		"attention.layer_norm_rms_epsilon": float32(1e-5), "rope.dimension_count": u32(64), "rope.freq_base": float32(1e7),
		"residual_scale": float32(3.5565588200778455), "expert_count": u32(32), "expert_used_count": u32(2), "full_attention_interval": u32(8),
	}, `
- token_embd 6144 200064
- output_norm 6144
- output 6144 200064
* attn_norm 6144
0::8 attn_qkv 6144 24576
1::8 attn_qkv 6144 24576
2::8 attn_qkv 6144 24576
3::8 attn_qkv 6144 24576
4::8 attn_qkv 6144 24576
5::8 attn_qkv 6144 24576
6::8 attn_qkv 6144 24576
0::8 attn_norm_2 8192
1::8 attn_norm_2 8192
2::8 attn_norm_2 8192
3::8 attn_norm_2 8192
4::8 attn_norm_2 8192
5::8 attn_norm_2 8192
6::8 attn_norm_2 8192
0::8 attn_gate 6144 8192
1::8 attn_gate 6144 8192
2::8 attn_gate 6144 8192
3::8 attn_gate 6144 8192
4::8 attn_gate 6144 8192
5::8 attn_gate 6144 8192
6::8 attn_gate 6144 8192
7::8 attn_q 6144 8192
7::8 attn_k 6144 1024
7::8 attn_v 6144 1024
* attn_output 8192 6144
* ffn_norm 6144
* ffn_gate_inp 6144 32
* ffn_gate_exps 6144 9216 32
* ffn_up_exps 6144 9216 32
* ffn_down_exps 9216 6144 32`,
		func(c *Config) bool {
			return c.Layers[6].NHeadKV == 0 && c.Layers[7].NHeadKV == 8 && c.Layers[7].Rope.NRot == 64 && c.NFFExpert == 9216 && c.NormedScale > 3.5
		}},
	{"GroveMoE-Inst", "grovemoe", 48, map[string]any{
		"context_length": u32(40960), "embedding_length": u32(2048), "feed_forward_length": u32(6144), "attention.head_count": u32(32),
		"attention.head_count_kv": u32(4), "attention.key_length": u32(128), "attention.value_length": u32(128),
		"attention.layer_norm_rms_epsilon": float32(1e-6), "rope.freq_base": float32(1e6), "expert_count": u32(128), "expert_used_count": u32(8),
		"expert_feed_forward_length": u32(768), "expert_chunk_feed_forward_length": u32(128), "experts_per_group": u32(2), "expert_group_scale": float32(0.05),
	}, `
- token_embd 2048 151936
- output_norm 2048
- output 2048 151936
* attn_norm 2048
* attn_q 2048 4096
* attn_k 2048 512
* attn_v 2048 512
* attn_q_norm 128
* attn_k_norm 128
* attn_output 4096 2048
* ffn_norm 2048
* ffn_gate_inp 2048 128
* ffn_gate_exps 2048 768 128
* ffn_up_exps 2048 768 128
* ffn_down_exps 768 2048 128
* ffn_gate_chexps 2048 128 64
* ffn_up_chexps 2048 128 64
* ffn_down_chexps 128 2048 64`,
		func(c *Config) bool { return halves(c) && c.ExpertNorm && c.Adjugate.Of == 2 && c.Adjugate.NFF == 128 }},
	{"HRM-Text-1B", "hrm_text", 32, map[string]any{
		"block_count": u32(128), "context_length": u32(4096), "embedding_length": u32(1536), "feed_forward_length": u32(4096), "attention.head_count": u32(12),
		"attention.head_count_kv": u32(12), "attention.key_length": u32(128), "attention.value_length": u32(128),
		"attention.layer_norm_rms_epsilon": float32(1e-6), "rope.dimension_count": u32(128), "embedding_scale": float32(39.19),
		"hrm.layers_per_stack": u32(16), "hrm.h_cycles": u32(2), "hrm.l_cycles": u32(3), "hrm.prefix_lm": true,
	}, `
- token_embd 1536 65536
- output 1536 65536
- hrm.z_l_init! 1536
* attn_gate 1536 1536
* attn_q 1536 1536
* attn_k 1536 1536
* attn_v 1536 1536
* attn_output 1536 1536
* ffn_gate 1536 4096
* ffn_up 1536 4096
* ffn_down 4096 1536`,
		func(c *Config) bool { return halves(c) && len(c.Layers) == 128 && c.BareNorms }},
}

// ling3Tiny is the file of Ling 3.0 tiny: of four layers three have a delta net, and the fourth attention over latents, as the block has that
// predicts further tokens.
func ling3Tiny() published {
	const layers = 24
	heads := make([]int32, layers+1)
	for il := range heads {
		if il%4 == 3 || il == layers {
			heads[il] = 1
		}
	}
	tensors := []string{`- token_embd 1536 157184
- output_norm 1536
- output 1536 157184
* attn_norm 1536
* attn_output 2048 1536
* ffn_norm 1536
0:1 ffn_gate 1536 4608
0:1 ffn_up 1536 4608
0:1 ffn_down 4608 1536
1: ffn_gate_inp 1536 128
1: exp_probs_b.bias 128
1: ffn_gate_exps 1536 512 128
1: ffn_up_exps 1536 512 128
1: ffn_down_exps 512 1536 128
1: ffn_gate_shexp 1536 512
1: ffn_up_shexp 1536 512
1: ffn_down_shexp 512 1536
24: nextn.eh_proj 3072 1536
24: nextn.enorm 1536
24: nextn.hnorm 1536
24: layer_output_norm 1536`}
	for _, of := range []string{"3::4", "24:"} {
		for _, line := range []string{
			"attn_q_a 1536 256", "attn_q_a_norm 256", "attn_q_b 256 3072", "attn_kv_a_mqa 1536 576", "attn_kv_a_norm 512",
			"attn_k_b 128 512 16", "attn_v_b 512 128 16", "attn_gate 1536 16",
		} {
			tensors = append(tensors, of+" "+line)
		}
	}
	for _, of := range []string{"0:24:4", "1::4", "2::4"} {
		for _, line := range []string{
			"attn_q 1536 2048", "attn_k 1536 2048", "attn_v 1536 2048", "ssm_conv1d_q 4 1 2048 1", "ssm_conv1d_k 4 1 2048 1", "ssm_conv1d_v 4 1 2048 1",
			"ssm_f_a 1536 2048", "ssm_g_a 1536 2048", "ssm_beta 1536 16", "ssm_a! 1 16", "ssm_dt.bias 2048", "ssm_norm 128",
		} {
			tensors = append(tensors, of+" "+line)
		}
	}
	return published{"Ling-3.0-tiny", "bailingmoe3", layers + 1, map[string]any{
		"context_length": u32(131072), "embedding_length": u32(1536), "feed_forward_length": u32(4608), "attention.head_count": u32(16),
		"attention.head_count_kv": heads, "attention.layer_norm_rms_epsilon": float32(1e-6), "attention.q_lora_rank": u32(256),
		"attention.kv_lora_rank": u32(512), "attention.key_length": u32(576), "attention.key_length_mla": u32(192), "attention.value_length_mla": u32(128),
		"rope.dimension_count": u32(64), "rope.freq_base": float32(6e6), "ssm.conv_kernel": u32(4), "kda.head_dim": u32(128), "kda.safe_gate": true,
		"kda.gate_lower_bound": float32(-5), "expert_count": u32(128), "expert_used_count": u32(8), "expert_feed_forward_length": u32(512),
		"expert_shared_feed_forward_length": u32(512), "expert_shared_count": u32(1), "leading_dense_block_count": u32(1), "expert_gating_func": u32(2),
		"expert_weights_norm": true, "expert_weights_scale": float32(2.5), "nextn_predict_layers": u32(1),
	}, strings.Join(tensors, "\n"), func(c *Config) bool {
		return c.Delta.Least == -5 && neighbours(&Config{Layers: c.Layers[3:]}) && c.Layers[2].NHeadKV == 0 && c.Layers[23].NHeadKV == 1
	}}
}

// dots3Note is the file of dots3-note: the first two layers attend to what an index chooses, and behind them every fourth, the others to a window.
func dots3Note() published {
	const layers = 46
	heads, windows, index := make([]int32, layers), make([]bool, layers), make([]bool, layers)
	var lines []string
	add := func(layers, names string, dims ...int) {
		for name := range strings.FieldsSeq(names) {
			lines = append(lines, layers+" "+name+" "+strings.Trim(fmt.Sprint(dims), "[]"))
		}
	}
	add("-", "token_embd output", 5120, 152064)
	add("-", "output_norm", 5120)
	add("*", "attn_norm ffn_norm", 5120)
	for il := range layers {
		h, rank, plain := 64, 1024, 192
		one := fmt.Sprintf("%d:%d", il, il+1)
		if index[il] = il == 0 || il%4 == 1; index[il] {
			h, rank, plain = 128, 512, 128
			add(one, "indexer.k_norm indexer.k_norm.bias", 128)
			add(one, "indexer.proj", 5120, 64)
			add(one, "indexer.attn_k", 5120, 128)
			add(one, "indexer.attn_q_b", 1024, 64*128)
		}
		heads[il], windows[il] = int32(h), !index[il]
		add(one, "attn_q_a", 5120, 1024)
		add(one, "attn_q_a_norm", 1024)
		add(one, "attn_q_b", 1024, h*(plain+64))
		add(one, "attn_kv_a_mqa", 5120, rank+64)
		add(one, "attn_kv_a_norm", rank)
		add(one, "attn_k_norm", 64)
		add(one, "attn_k_b", plain, rank, h)
		add(one, "attn_v_b", rank, 128, h)
		add(one, "attn_gate", 5120, h)
		add(one, "attn_output", h*128, 5120)
	}
	add("0:1", "ffn_gate ffn_up", 5120, 13824)
	add("0:1", "ffn_down", 13824, 5120)
	add("1:", "ffn_gate_inp", 5120, 256)
	add("1:", "exp_probs_b.bias", 256)
	add("1:", "ffn_gate_exps ffn_up_exps", 5120, 1536, 256)
	add("1:", "ffn_down_exps", 1536, 5120, 256)
	add("1:", "ffn_gate_shexp ffn_up_shexp", 5120, 1536)
	add("1:", "ffn_down_shexp", 1536, 5120)
	return published{"dots3-note-prev", "dots3note", layers, map[string]any{
		"context_length": u32(524288), "embedding_length": u32(5120), "feed_forward_length": u32(13824), "attention.head_count": heads,
		"attention.head_count_kv": u32(1), "attention.layer_norm_rms_epsilon": float32(1e-5), "attention.q_lora_rank": u32(1024),
		"attention.kv_lora_rank": u32(512), "attention.key_length": u32(576), "attention.value_length": u32(512), "attention.key_length_mla": u32(192),
		"attention.value_length_mla": u32(128), "attention.kv_lora_rank_swa": u32(1024), "attention.key_length_swa": u32(1088),
		"attention.value_length_swa": u32(1024), "attention.key_length_mla_swa": u32(256), "attention.value_length_mla_swa": u32(128),
		"attention.sliding_window": u32(513), "attention.sliding_window_pattern": windows, "rope.dimension_count": u32(64),
		"rope.freq_base": float32(8e7), "rope.freq_base_swa": float32(5e4), "attention.indexer.head_count": u32(64),
		"attention.indexer.key_length": u32(128), "attention.indexer.top_k": u32(2048), "attention.indexer.types": index,
		"expert_count": u32(256), "expert_used_count": u32(8), "expert_feed_forward_length": u32(1536), "expert_shared_count": u32(1),
		"leading_dense_block_count": u32(1), "expert_gating_func": u32(2), "expert_weights_norm": true, "expert_weights_scale": float32(1),
	}, strings.Join(lines, "\n"), func(c *Config) bool {
		all, near := c.Layers[5], c.Layers[6]
		return all.Indexed && all.Window == 0 && all.HeadDim == 576 && all.Rope.Base == 8e7 && !near.Indexed && near.Window == 513 &&
			near.HeadDim == 1088 && near.ValueDim == 1024 && near.AttnScale == 1./16 && near.Rope.Base == 5e4 && neighbours(c)
	}}
}
