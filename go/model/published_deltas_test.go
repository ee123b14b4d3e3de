package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/model/arch"
)

// A deltaShape is the sizes in which published models with gated delta nets differ.
type deltaShape struct {
	name, arch              string
	layers, next            int // without those that predict further tokens, and these
	embd, heads, headsKV    int
	valueHeads, vocab       int
	ff                      int // 0: experts instead
	experts, used, ffExpert int
	tied, listed, early     bool // embeddings are the output; layers are in a list; as files were first
}

// publishedDeltas are the files of Qwen 3 Next and of what followed it.
func publishedDeltas() []published {
	var all []published
	for _, s := range []deltaShape{
		{name: "qwen3.6-35b-a3b", arch: "qwen35moe", layers: 40, embd: 2048, heads: 16, headsKV: 2, valueHeads: 32, vocab: 248320, experts: 256, used: 8, ffExpert: 512},
		{name: "qwen3.5-397b-a17b", arch: "qwen35moe", layers: 60, next: 1, embd: 4096, heads: 32, headsKV: 2, valueHeads: 64, vocab: 248320, experts: 512, used: 10, ffExpert: 1024},
		{name: "qwen3.6-27b", arch: "qwen35", layers: 64, embd: 5120, heads: 24, headsKV: 4, valueHeads: 48, vocab: 248320, ff: 17408},
		{name: "qwen3.5-4b", arch: "qwen35", layers: 32, next: 1, embd: 2560, heads: 16, headsKV: 4, valueHeads: 32, vocab: 248320, ff: 9216, tied: true, listed: true},
		{name: "qwen3-next-80b-a3b", arch: "qwen3next", layers: 48, embd: 2048, heads: 16, headsKV: 2, valueHeads: 32, vocab: 151936, experts: 512, used: 10, ffExpert: 512},
		{name: "qwen3-next-80b-a3b, early", arch: "qwen3next", layers: 48, embd: 2048, heads: 16, headsKV: 2, valueHeads: 32, vocab: 151936, experts: 512, used: 10, ffExpert: 512, early: true},
	} {
		all = append(all, s.published())
	}
	return all
}

func (s deltaShape) published() published {
	inner := s.valueHeads * 128
	keys := map[string]any{
		"context_length": u32(262144), "embedding_length": u32(s.embd), "attention.head_count": u32(s.heads), "attention.head_count_kv": u32(s.headsKV),
		"attention.key_length": u32(256), "attention.value_length": u32(256), "attention.layer_norm_rms_epsilon": float32(1e-6),
		"rope.freq_base": float32(1e7), "rope.dimension_count": u32(64), "full_attention_interval": u32(4),
		"ssm.conv_kernel": u32(4), "ssm.state_size": u32(128), "ssm.group_count": u32(16),
		"ssm.time_step_rank": u32(s.valueHeads), "ssm.inner_size": u32(inner),
	}
	if s.next > 0 {
		keys["nextn_predict_layers"] = u32(s.next)
	}
	if s.arch != "qwen3next" {
		keys["rope.dimension_sections"] = []int32{11, 11, 10, 0}
	}
	if s.listed {
		list := make([]bool, s.layers+s.next)
		for il := range s.layers {
			list[il] = il%4 != 3
		}
		keys["attention.recurrent_layers"] = list
	}

	var lines []string
	add := func(layers, names string, dims ...int) {
		for name := range strings.FieldsSeq(names) {
			lines = append(lines, layers+" "+name+" "+strings.Trim(fmt.Sprint(dims), "[]"))
		}
	}
	add("-", "token_embd", s.embd, s.vocab)
	add("-", "output_norm", s.embd)
	if !s.tied {
		add("-", "output", s.embd, s.vocab)
	}
	whole := fmt.Sprintf("0:%d", s.layers)
	add(whole, "attn_norm post_attention_norm", s.embd)
	if s.ff > 0 {
		keys["feed_forward_length"] = u32(s.ff)
		add(whole, "ffn_gate ffn_up", s.embd, s.ff)
		add(whole, "ffn_down", s.ff, s.embd)
	} else {
		maps.Copy(keys, map[string]any{
			"expert_count": u32(s.experts), "expert_used_count": u32(s.used),
			"expert_feed_forward_length": u32(s.ffExpert), "expert_shared_feed_forward_length": u32(s.ffExpert),
		})
		add(whole, "ffn_gate_inp", s.embd, s.experts)
		add(whole, "ffn_gate_exps ffn_up_exps", s.embd, s.ffExpert, s.experts)
		add(whole, "ffn_down_exps", s.ffExpert, s.embd, s.experts)
		add(whole, "ffn_gate_inp_shexp", s.embd)
		add(whole, "ffn_gate_shexp ffn_up_shexp", s.embd, s.ffExpert)
		add(whole, "ffn_down_shexp", s.ffExpert, s.embd)
	}
	for from := range 3 {
		deltas := fmt.Sprintf("%d:%d:4", from, s.layers)
		if s.early {
			add(deltas, "ssm_in", s.embd, 4096+2*inner)
		} else {
			add(deltas, "attn_qkv", s.embd, 4096+inner)
			add(deltas, "attn_gate", s.embd, inner)
		}
		if s.arch == "qwen3next" {
			add(deltas, "ssm_ba", s.embd, 2*s.valueHeads)
		} else {
			add(deltas, "ssm_alpha ssm_beta", s.embd, s.valueHeads)
		}
		add(deltas, "ssm_conv1d", 4, 4096+inner)
		add(deltas, "ssm_dt.bias ssm_a!", s.valueHeads)
		add(deltas, "ssm_norm", 128)
		add(deltas, "ssm_out", inner, s.embd)
	}
	attention := fmt.Sprintf("3:%d:4", s.layers)
	add(attention, "attn_q", s.embd, s.heads*512)
	add(attention, "attn_k attn_v", s.embd, s.headsKV*256)
	add(attention, "attn_q_norm attn_k_norm", 256)
	add(attention, "attn_output", s.heads*256, s.embd)

	return published{s.name, s.arch, s.layers + s.next, keys, strings.Join(lines, "\n"), func(c *Config) bool {
		recurrent := func(l arch.Layer) bool { return l.NHeadKV == 0 }
		return len(c.Layers) == s.layers && c.NNext == s.next && slices.IndexFunc(c.Layers, recurrent) == 0 &&
			!recurrent(c.Layers[3]) && recurrent(c.Layers[4]) && !recurrent(c.Layers[s.layers-1])
	}}
}
