package model

import (
	"fmt"
	"maps"
	"strings"

	"github.com/quern-llm/quern/go/model/arch"
)

// A latentShape is the sizes in which published models with attention over latents differ.
type latentShape struct {
	name, arch                      string
	layers, next, dense             int // without those that predict further tokens, these, and the first without experts
	embd, heads, vocab, ff          int
	queryRank, rank, plain, rotated int
	value                           int
	experts, used, ffExpert, shared int
	groups, groupsUsed              int
	corrected                       bool    // the choice of experts
	yarn, mscale                    float32 // 0.1 times what config.json says
	whole                           bool    // as files were before latents were kept
	indexHeads, indexed             int     // what chooses positions, in so many layers
	extra                           map[string]any
}

// publishedLatents are the files of DeepSeek V2 and of what followed it.
func publishedLatents() []published {
	var all []published
	for _, s := range []latentShape{
		{
			name: "deepseek-v2-lite", arch: "deepseek2", layers: 27, dense: 1, embd: 2048, heads: 16, vocab: 102400, ff: 10944,
			rank: 512, plain: 128, rotated: 64, value: 128, experts: 64, used: 6, ffExpert: 1408, shared: 2, yarn: 40, mscale: 0.0707,
		},
		{
			name: "deepseek-v2-lite, in one piece", arch: "deepseek2", layers: 27, dense: 1, embd: 2048, heads: 16, vocab: 102400,
			ff: 10944, rank: 512, plain: 128, rotated: 64, value: 128, experts: 64, used: 6, ffExpert: 1408, shared: 2, yarn: 40,
			mscale: 0.0707, whole: true,
		},
		{
			name: "deepseek-v2", arch: "deepseek2", layers: 60, dense: 1, embd: 5120, heads: 128, vocab: 102400, ff: 12288,
			queryRank: 1536, rank: 512, plain: 128, rotated: 64, value: 128, experts: 160, used: 6, ffExpert: 1536, shared: 2,
			groups: 8, groupsUsed: 3, yarn: 40, mscale: 0.0707,
		},
		{
			name: "deepseek-v3", arch: "deepseek2", layers: 61, dense: 3, embd: 7168, heads: 128, vocab: 129280, ff: 18432,
			queryRank: 1536, rank: 512, plain: 128, rotated: 64, value: 128, experts: 256, used: 8, ffExpert: 2048, shared: 1,
			groups: 8, groupsUsed: 4, corrected: true, yarn: 40, mscale: 0.1,
		},
		{
			name: "kimi-k2", arch: "deepseek2", layers: 61, dense: 1, embd: 7168, heads: 64, vocab: 163840, ff: 18432,
			queryRank: 1536, rank: 512, plain: 128, rotated: 64, value: 128, experts: 384, used: 8, ffExpert: 2048, shared: 1,
			groups: 1, groupsUsed: 1, corrected: true, yarn: 32, mscale: 0.1,
		},
		{
			name: "glm-4.7-flash", arch: "deepseek2", layers: 47, next: 1, dense: 1, embd: 2048, heads: 20, vocab: 154880, ff: 10240,
			queryRank: 768, rank: 512, plain: 192, rotated: 64, value: 256, experts: 64, used: 4, ffExpert: 1536, shared: 1,
			groups: 1, groupsUsed: 1, corrected: true,
		},
		{
			name: "deepseek-v3.2", arch: "deepseek32", layers: 61, next: 1, dense: 3, embd: 7168, heads: 128, vocab: 129280, ff: 18432,
			queryRank: 1536, rank: 512, plain: 128, rotated: 64, value: 128, experts: 256, used: 8, ffExpert: 2048, shared: 1,
			groups: 8, groupsUsed: 4, corrected: true, yarn: 40, mscale: 0.1, indexHeads: 64, indexed: 61,
		},
		{
			name: "glm-5", arch: "glm-dsa", layers: 78, next: 1, dense: 3, embd: 6144, heads: 64, vocab: 154880, ff: 12288,
			queryRank: 2048, rank: 512, plain: 192, rotated: 64, value: 256, experts: 256, used: 8, ffExpert: 2048, shared: 1,
			groups: 1, groupsUsed: 1, corrected: true, indexHeads: 32, indexed: 78,
		},
		{
			name: "glm-5.2", arch: "glm-dsa", layers: 78, next: 1, dense: 3, embd: 6144, heads: 64, vocab: 154880, ff: 12288,
			queryRank: 2048, rank: 512, plain: 192, rotated: 64, value: 256, experts: 256, used: 8, ffExpert: 2048, shared: 1,
			groups: 1, groupsUsed: 1, corrected: true, indexHeads: 32, indexed: 21, extra: map[string]any{"context_length": u32(1 << 20)},
		},
		{
			name: "mistral-small-4", arch: "mistral4", layers: 36, embd: 4096, heads: 32, vocab: 131072, ff: 12288,
			queryRank: 1024, rank: 256, plain: 64, rotated: 64, value: 128, experts: 128, used: 4, ffExpert: 2048, shared: 1,
			groups: 1, groupsUsed: 1, yarn: 128, mscale: 0.1,
			extra: map[string]any{
				"attention.temperature_scale": float32(0.1), "attention.temperature_length": u32(8192),
				"rope.scaling.original_context_length": u32(8192),
			},
		},
	} {
		all = append(all, s.published())
	}
	return append(all, kimiLinear48b(), kimiK3(), deepseekV4Flash())
}

// kimiLinear48b is the file of Kimi Linear: every fourth layer and the last have latents, the others delta nets.
func kimiLinear48b() published {
	headsKV := make([]int32, 27)
	for il := range headsKV {
		if il%4 == 3 || il == 26 {
			headsKV[il] = 1
		}
	}
	keys := map[string]any{
		"context_length": u32(1048576), "embedding_length": u32(2304), "feed_forward_length": u32(9216), "attention.head_count": u32(32),
		"attention.head_count_kv": headsKV, "attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(10000),
		"ssm.conv_kernel": u32(4), "kda.head_dim": u32(128), "attention.kv_lora_rank": u32(512), "rope.dimension_count": u32(64),
		"attention.key_length": u32(576), "attention.key_length_mla": u32(192), "attention.value_length_mla": u32(128),
		"expert_count": u32(256), "expert_used_count": u32(8), "expert_feed_forward_length": u32(1024), "expert_shared_count": u32(1),
		"leading_dense_block_count": u32(1), "expert_weights_scale": float32(2.446), "expert_gating_func": u32(2),
	}
	lines := []string{`
- token_embd 2304 163840
- output 2304 163840
- output_norm 2304
* attn_norm 2304
* ffn_norm 2304
* attn_output 4096 2304
0:1 ffn_gate 2304 9216
0:1 ffn_up 2304 9216
0:1 ffn_down 9216 2304
1: ffn_gate_inp 2304 256
1: exp_probs_b.bias 256
1: ffn_gate_exps 2304 1024 256
1: ffn_up_exps 2304 1024 256
1: ffn_down_exps 1024 2304 256
1: ffn_gate_shexp 2304 1024
1: ffn_up_shexp 2304 1024
1: ffn_down_shexp 1024 2304`}
	latents := `
attn_q 2304 6144
attn_kv_a_mqa 2304 576
attn_kv_a_norm 512
attn_k_b 128 512 32
attn_v_b 512 128 32`
	deltas := `
attn_q 2304 4096
attn_k 2304 4096
attn_v 2304 4096
ssm_conv1d_q 4 1 4096 1
ssm_conv1d_k 4 1 4096 1
ssm_conv1d_v 4 1 4096 1
ssm_f_a 2304 128
ssm_f_b 128 4096
ssm_g_a 2304 128
ssm_g_b 128 4096
ssm_beta 2304 32
ssm_a! 1 32 1 1
ssm_dt.bias 4096
ssm_norm 128`
	for layers, tensors := range map[string]string{
		"3:26:4": latents, "26:": latents, "0:24:4": deltas, "1:24:4": deltas, "2:24:4": deltas, "24:26": deltas,
	} {
		lines = append(lines, strings.ReplaceAll(tensors, "\n", "\n"+layers+" "))
	}
	return published{"kimi-linear-48b-a3b", "kimi-linear", 27, keys, strings.Join(lines, ""), func(c *Config) bool {
		return len(c.Layers) == 27 && c.Layers[2].NHeadKV == 0 && c.Layers[3].NHeadKV == 1 && c.Layers[26].NHeadKV == 1 && c.Delta.NHead == 32
	}}
}

// kimiK3 is the file of Kimi K3: every fourth layer and the last have latents, the others delta nets.
func kimiK3() published {
	headsKV := make([]int32, 93)
	for il := range headsKV {
		if il%4 == 3 || il == 92 {
			headsKV[il] = 1
		}
	}
	keys := map[string]any{
		"context_length": u32(1048576), "embedding_length": u32(7168), "feed_forward_length": u32(33792), "attention.head_count": u32(96),
		"attention.head_count_kv": headsKV, "attention.layer_norm_rms_epsilon": float32(1e-5), "ssm.conv_kernel": u32(4), "kda.head_dim": u32(128),
		"kda.gate_lower_bound": float32(-5), "attention.q_lora_rank": u32(1536), "attention.kv_lora_rank": u32(512), "rope.dimension_count": u32(64),
		"attention.key_length": u32(576), "attention.value_length": u32(512), "attention.key_length_mla": u32(192), "attention.value_length_mla": u32(128),
		"expert_count": u32(896), "expert_used_count": u32(16), "expert_feed_forward_length": u32(3072), "expert_shared_count": u32(2),
		"expert_latent_length": u32(3584), "leading_dense_block_count": u32(1), "expert_weights_norm": true,
		"expert_gating_func": u32(2), "activation.situ_beta": float32(4), "activation.situ_linear_beta": float32(25), "attn_res.block_size": u32(12),
	}
	lines := []string{`
- token_embd 7168 163840
- output 7168 163840
- output_norm 7168
- output_res_score 7168
* attn_norm 7168
* attn_res_score 7168
* ffn_norm 7168
* ffn_res_score 7168
* attn_output 12288 7168
0:1 ffn_gate 7168 33792
0:1 ffn_up 7168 33792
0:1 ffn_down 33792 7168
1: ffn_gate_inp 7168 896
1: exp_probs_b.bias 896
1: ffn_routed_down 7168 3584
1: ffn_routed_norm 3584
1: ffn_routed_up 3584 7168
1: ffn_gate_exps 3584 3072 896
1: ffn_up_exps 3584 3072 896
1: ffn_down_exps 3072 3584 896
1: ffn_gate_shexp 7168 6144
1: ffn_up_shexp 7168 6144
1: ffn_down_shexp 6144 7168`}
	latents := `
attn_q_a 7168 1536
attn_q_a_norm 1536
attn_q_b 1536 18432
attn_kv_a_mqa 7168 576
attn_kv_a_norm 512
attn_k_b 128 512 96
attn_v_b 512 128 96
attn_gate 7168 12288`
	deltas := `
attn_q 7168 12288
attn_k 7168 12288
attn_v 7168 12288
ssm_conv1d_q 4 1 12288 1
ssm_conv1d_k 4 1 12288 1
ssm_conv1d_v 4 1 12288 1
ssm_f_a 7168 128
ssm_f_b 128 12288
ssm_g 7168 12288
ssm_beta 7168 96
ssm_a! 96
ssm_dt.bias 12288
ssm_norm 128`
	for layers, tensors := range map[string]string{"3:92:4": latents, "92:": latents, "0:92:4": deltas, "1:92:4": deltas, "2:92:4": deltas} {
		lines = append(lines, strings.ReplaceAll(tensors, "\n", "\n"+layers+" "))
	}
	return published{"kimi-k3", "kimi-k3", 93, keys, strings.Join(lines, ""), func(c *Config) bool {
		return len(c.Layers) == 93 && c.Layers[2].NHeadKV == 0 && c.Layers[91].NHeadKV == 1 && c.Layers[92].NHeadKV == 1 && c.NLatent == 3584 && c.NFFShared == 6144
	}}
}

// deepseekV4Flash is the file of DeepSeek V4 Flash: the first two layers have a window alone, those behind keys that stand
// for 4 or 128 positions in turns; the experts of the first three are the token's.
func deepseekV4Flash() published {
	const layers = 43
	every, limits := make([]int32, layers+1), make([]float32, layers) // and of the block for further tokens, which is left out
	for il := range limits {
		limits[il] = 10
		if il >= 2 {
			every[il] = []int32{4, 128}[il%2]
		}
	}
	keys := map[string]any{
		"context_length": u32(1 << 20), "embedding_length": u32(4096), "vocab_size": u32(129280), "attention.head_count": u32(64),
		"attention.head_count_kv": u32(1), "attention.key_length": u32(512), "attention.value_length": u32(512),
		"rope.dimension_count": u32(64), "rope.freq_base": float32(10000), "attention.layer_norm_rms_epsilon": float32(1e-6),
		"rope.scaling.type": "yarn", "rope.scaling.factor": float32(16), "rope.scaling.original_context_length": u32(65536),
		"attention.q_lora_rank": u32(1024), "attention.sliding_window": u32(128), "attention.output_group_count": u32(8),
		"attention.output_lora_rank": u32(1024), "attention.compress_ratios": every, "attention.compress_rope_freq_base": float32(160000),
		"attention.indexer.head_count": u32(64), "attention.indexer.key_length": u32(128), "attention.indexer.top_k": u32(512),
		"expert_count": u32(256), "expert_used_count": u32(6), "expert_feed_forward_length": u32(2048), "expert_shared_count": u32(1),
		"expert_gating_func": u32(4), "expert_weights_norm": true, "expert_weights_scale": float32(1.5),
		"swiglu_clamp_exp": limits, "swiglu_clamp_shexp": limits, "hash_layer_count": u32(3), "embedding_length_out": u32(16384),
		"hyper_connection.count": u32(4), "hyper_connection.sinkhorn_iterations": u32(20), "hyper_connection.epsilon": float32(1e-6),
	}
	tensors := `
- token_embd 4096 129280
- output 4096 129280
- output_norm 4096
- output_hc_fn 16384 4
- output_hc_base 4
- output_hc_scale 1
* attn_norm 4096
* attn_q_a 4096 1024
* attn_q_a_norm 1024
* attn_q_b 1024 32768
* attn_kv 4096 512
* attn_kv_a_norm 512
* attn_sinks 64
* attn_output_a 4096 8192
* attn_output_b 8192 4096
* hc_attn_fn 16384 24
* hc_attn_base 24
* hc_attn_scale 3
* hc_ffn_fn 16384 24
* hc_ffn_base 24
* hc_ffn_scale 3
2::2 attn_compressor_kv 4096 1024
2::2 attn_compressor_gate 4096 1024
2::2 attn_compressor_ape 1024 4
3::2 attn_compressor_kv 4096 512
3::2 attn_compressor_gate 4096 512
3::2 attn_compressor_ape 512 128
2: attn_compressor_norm 512
2::2 indexer_compressor_kv 4096 256
2::2 indexer_compressor_gate 4096 256
2::2 indexer_compressor_ape 256 4
2::2 indexer_compressor_norm 128
2::2 indexer.attn_q_b 1024 8192
2::2 indexer.proj 4096 64
* ffn_norm 4096
* ffn_gate_inp 4096 256
0:3 ffn_gate_tid2eid 6 129280
3: exp_probs_b.bias 256
* ffn_gate_exps 4096 2048 256
* ffn_up_exps 4096 2048 256
* ffn_down_exps 2048 4096 256
* ffn_gate_shexp 4096 2048
* ffn_up_shexp 4096 2048
* ffn_down_shexp 2048 4096`
	return published{"deepseek-v4-flash", "deepseek4", layers, keys, tensors, func(c *Config) bool {
		l := c.Layers
		return len(l) == layers && l[0].Every == 0 && l[0].Rope.Base == 10000 && l[0].Rope.Scaling.Type == "none" && l[2].Every == 4 &&
			l[2].Rope.Base == 160000 && l[2].Rope.Scaling.Factor == 16 && l[2].Rope.Scale() == 1 && l[42].Every == 4 && l[41].Every == 128 &&
			l[42].Window == 128 && l[2].Hashed && !l[3].Hashed && l[42].ExpertLimit == 10 && c.NFFShared == 2048 &&
			c.Latent.Index.Best == 512 && c.ExpertNorm && c.Hyper.Streams == 4
	}}
}

func (s latentShape) published() published {
	keys := map[string]any{
		"context_length": u32(163840), "embedding_length": u32(s.embd), "feed_forward_length": u32(s.ff),
		"attention.head_count": u32(s.heads), "attention.head_count_kv": u32(1), "attention.kv_lora_rank": u32(s.rank),
		"attention.key_length": u32(s.rank + s.rotated), "attention.value_length": u32(s.rank),
		"attention.key_length_mla": u32(s.plain + s.rotated), "attention.value_length_mla": u32(s.value),
		"rope.dimension_count": u32(s.rotated), "attention.layer_norm_rms_epsilon": float32(1e-6), "vocab_size": u32(s.vocab),
		"expert_count": u32(s.experts), "expert_used_count": u32(s.used), "expert_feed_forward_length": u32(s.ffExpert),
		"expert_shared_count": u32(s.shared), "leading_dense_block_count": u32(s.dense), "expert_gating_func": u32(1),
		"expert_weights_scale": float32(1),
	}
	if s.whole {
		delete(keys, "attention.key_length_mla")
		delete(keys, "attention.value_length_mla")
		maps.Copy(keys, map[string]any{
			"attention.head_count_kv": u32(s.heads), "attention.key_length": u32(s.plain + s.rotated), "attention.value_length": u32(s.value),
		})
	}
	if s.queryRank > 0 {
		keys["attention.q_lora_rank"] = u32(s.queryRank)
	}
	if s.corrected {
		keys["expert_gating_func"], keys["expert_weights_norm"] = u32(2), true
	}
	if s.groups > 0 {
		keys["expert_group_count"], keys["expert_group_used_count"] = u32(s.groups), u32(s.groupsUsed)
	}
	if s.yarn > 0 {
		maps.Copy(keys, map[string]any{
			"rope.scaling.type": "yarn", "rope.scaling.factor": s.yarn, "rope.scaling.original_context_length": u32(4096),
			"rope.scaling.yarn_log_multiplier": s.mscale,
		})
	}
	if s.next > 0 {
		keys["nextn_predict_layers"] = u32(s.next)
	}
	if s.indexHeads > 0 {
		maps.Copy(keys, map[string]any{
			"attention.indexer.head_count": u32(s.indexHeads), "attention.indexer.key_length": u32(128), "attention.indexer.top_k": u32(2048),
		})
	}
	maps.Copy(keys, s.extra)
	return published{s.name, s.arch, s.layers + s.next, keys, s.tensors(), func(c *Config) bool {
		n, last := c.Latent, c.Layers[s.layers-1]
		return len(c.Layers) == s.layers && c.NNext == s.next && n.Rank == s.rank && n.QueryRank == s.queryRank &&
			n.KeyDim == s.plain+s.rotated && n.ValueDim == s.value && last.HeadDim == s.rank+s.rotated && last.NHeadKV == 1 &&
			(s.dense == 0 || !c.Layers[s.dense-1].Sparse) && c.Layers[s.dense].Sparse && s.indexed == count(c.Layers) &&
			c.GroupBest == (s.arch == "deepseek2" && !s.corrected)
	}}
}

// count returns how many layers choose positions.
func count(layers []arch.Layer) (n int) {
	for _, l := range layers {
		if l.Indexed {
			n++
		}
	}
	return n
}

func (s latentShape) tensors() string {
	var lines []string
	add := func(layers, names string, dims ...int) {
		for name := range strings.FieldsSeq(names) {
			lines = append(lines, layers+" "+name+" "+strings.Trim(fmt.Sprint(dims), "[]"))
		}
	}
	add("-", "token_embd output", s.embd, s.vocab)
	add("-", "output_norm", s.embd)
	add("*", "attn_norm ffn_norm", s.embd)
	if s.queryRank > 0 {
		add("*", "attn_q_a", s.embd, s.queryRank)
		add("*", "attn_q_a_norm", s.queryRank)
		add("*", "attn_q_b", s.queryRank, s.heads*(s.plain+s.rotated))
	} else {
		add("*", "attn_q", s.embd, s.heads*(s.plain+s.rotated))
	}
	add("*", "attn_kv_a_mqa", s.embd, s.rank+s.rotated)
	add("*", "attn_kv_a_norm", s.rank)
	if s.whole {
		add("*", "attn_kv_b", s.rank, s.heads*(s.plain+s.value))
	} else {
		add("*", "attn_k_b", s.plain, s.rank, s.heads)
		add("*", "attn_v_b", s.rank, s.value, s.heads)
	}
	add("*", "attn_output", s.heads*s.value, s.embd)
	indexed := []string{"*"}
	if s.indexed < s.layers { // the first three and every fourth, and that of further tokens
		indexed = []string{"0:2", "2:78:4", "78:"}
	}
	for _, layers := range indexed {
		if s.indexHeads > 0 {
			add(layers, "indexer.attn_q_b", s.queryRank, s.indexHeads*128)
			add(layers, "indexer.attn_k", s.embd, 128)
			add(layers, "indexer.k_norm indexer.k_norm.bias", 128)
			add(layers, "indexer.proj", s.embd, s.indexHeads)
		}
	}
	first, rest := fmt.Sprintf("0:%d", s.dense), fmt.Sprintf("%d:", s.dense)
	if s.dense > 0 {
		add(first, "ffn_gate ffn_up", s.embd, s.ff)
		add(first, "ffn_down", s.ff, s.embd)
	}
	add(rest, "ffn_gate_inp", s.embd, s.experts)
	if s.corrected {
		add(rest, "exp_probs_b.bias", s.experts)
	}
	if s.arch == "mistral4" {
		add(rest, "ffn_gate_up_exps", s.embd, 2*s.ffExpert, s.experts)
	} else {
		add(rest, "ffn_gate_exps ffn_up_exps", s.embd, s.ffExpert, s.experts)
	}
	add(rest, "ffn_down_exps", s.ffExpert, s.embd, s.experts)
	add(rest, "ffn_gate_shexp ffn_up_shexp", s.embd, s.ffExpert*s.shared)
	add(rest, "ffn_down_shexp", s.ffExpert*s.shared, s.embd)
	if s.next > 0 {
		next := fmt.Sprintf("%d:", s.layers)
		add(next, "nextn.eh_proj", 2*s.embd, s.embd)
		add(next, "nextn.enorm nextn.hnorm nextn.shared_head_norm", s.embd)
	}
	return strings.Join(lines, "\n")
}
