package model

import (
	"fmt"
	"maps"
	"strings"

	"github.com/quern-llm/quern/go/model/arch"
)

// A scanShape is the sizes in which published models with selective state spaces differ.
// The kind of each layer is in pattern: M for a state space, * for attention, both of
// which some architectures follow with a feed-forward, - and E for a feed-forward or
// experts alone; B for state space and attention in one layer.
type scanShape struct {
	name, arch            string
	pattern               string
	embd, vocab, ctx      int
	heads, headsKV, dim   int
	inner, state          int
	ssmHeads, groups      int // of Mamba 2
	rank                  int // of Mamba
	ff                    int // 0: there is none beside experts
	experts, used, ffExp  int
	shared                int  // width of the shared expert
	tied, separate, plain bool // embeddings are the output; a feed-forward is a layer; and has no gate
	more                  map[string]any
}

// every returns a pattern of n layers with attention in the `at`-th of each period.
func every(n, period, at int) string {
	b := []byte(strings.Repeat("M", n))
	for i := at; i < n; i += period {
		b[i] = '*'
	}
	return string(b)
}

// publishedScans are the files of models with selective state spaces.
func publishedScans() []published {
	granite := map[string]any{
		"attention.scale": float32(1. / 128), "embedding_scale": float32(12), "residual_scale": float32(0.22), "logit_scale": float32(6),
		"rope.scaling.finetuned": false, "rope.freq_base": float32(10000),
	}
	nano := map[string]any{
		"expert_shared_count": u32(1), "expert_weights_norm": true, "expert_weights_scale": float32(2.5), "expert_group_count": u32(1),
		"attention.layer_norm_epsilon": float32(1e-5),
	}
	rope := map[string]any{"rope.freq_base": float32(1e11), "vocab_size": u32(130048)}
	var all []published
	for _, s := range []scanShape{
		{name: "mamba-2.8b", arch: "mamba", pattern: strings.Repeat("M", 64), embd: 2560, vocab: 50280, ctx: 1 << 20, inner: 5120, state: 16, rank: 160, tied: true, more: map[string]any{"ssm.dt_b_c_rms": false}},
		{name: "falcon-mamba-7b", arch: "mamba", pattern: strings.Repeat("M", 64), embd: 4096, vocab: 65024, ctx: 1 << 20, inner: 8192, state: 16, rank: 256, more: map[string]any{"ssm.dt_b_c_rms": true}},
		{name: "mamba2-2.7b", arch: "mamba2", pattern: strings.Repeat("M", 64), embd: 2560, vocab: 50288, ctx: 1 << 20, inner: 5120, state: 128, ssmHeads: 80, groups: 1, tied: true},
		{name: "mamba-codestral-7b", arch: "mamba2", pattern: strings.Repeat("M", 64), embd: 4096, vocab: 32768, ctx: 1 << 20, inner: 8192, state: 128, ssmHeads: 128, groups: 8},
		{name: "jamba-1.7-mini", arch: "jamba", pattern: every(32, 8, 4), embd: 4096, vocab: 65536, ctx: 262144, heads: 32, headsKV: 8, dim: 128, inner: 8192, state: 16, rank: 256, ff: 14336, experts: 16, used: 2, ffExp: 14336},
		{name: "jamba-reasoning-3b", arch: "jamba", pattern: every(28, 14, 7), embd: 2560, vocab: 65536, ctx: 262144, heads: 20, headsKV: 1, dim: 128, inner: 5120, state: 16, rank: 160, ff: 8192, tied: true, more: map[string]any{"expert_count": u32(1), "expert_used_count": u32(1)}},
		{name: "falcon-h1-0.5b", arch: "falcon-h1", pattern: strings.Repeat("B", 36), embd: 1024, vocab: 32784, ctx: 16384, heads: 8, headsKV: 2, dim: 64, inner: 1536, state: 128, ssmHeads: 24, groups: 1, ff: 2048, more: rope},
		{name: "falcon-h1-1.5b-deep", arch: "falcon-h1", pattern: strings.Repeat("B", 66), embd: 1280, vocab: 65537, ctx: 131072, heads: 6, headsKV: 2, dim: 128, inner: 1536, state: 256, ssmHeads: 24, groups: 1, ff: 3072, more: rope},
		{name: "falcon-h1-7b", arch: "falcon-h1", pattern: strings.Repeat("B", 44), embd: 3072, vocab: 130049, ctx: 262144, heads: 12, headsKV: 2, dim: 128, inner: 3072, state: 256, ssmHeads: 24, groups: 1, ff: 12288, more: rope},
		{name: "falcon-h1-34b", arch: "falcon-h1", pattern: strings.Repeat("B", 72), embd: 5120, vocab: 261120, ctx: 262144, heads: 20, headsKV: 4, dim: 128, inner: 4096, state: 256, ssmHeads: 32, groups: 2, ff: 21504, more: rope},
		{name: "granite-4.0-h-tiny", arch: "granitehybrid", pattern: every(40, 10, 5), embd: 1536, vocab: 100352, ctx: 1 << 20, heads: 12, headsKV: 4, dim: 128, inner: 3072, state: 128, ssmHeads: 48, groups: 1, experts: 64, used: 6, ffExp: 512, shared: 1024, tied: true, more: granite},
		{name: "granite-4.0-h-small", arch: "granitehybrid", pattern: every(40, 10, 5), embd: 4096, vocab: 100352, ctx: 1 << 20, heads: 32, headsKV: 8, dim: 128, inner: 8192, state: 128, ssmHeads: 128, groups: 1, experts: 72, used: 10, ffExp: 768, shared: 1536, tied: true, more: granite},
		{name: "granite-4.0-h-micro", arch: "granitehybrid", pattern: every(40, 10, 5), embd: 2048, vocab: 100352, ctx: 1 << 20, heads: 32, headsKV: 8, dim: 64, inner: 4096, state: 128, ssmHeads: 64, groups: 1, ff: 8192, tied: true, more: granite},
		{name: "granite-4.0-h-350m", arch: "granitehybrid", pattern: "MMMMMMMMMM*MM*MMM*MMMMMMMMM*MMMM", embd: 768, vocab: 100352, ctx: 1 << 20, heads: 12, headsKV: 4, dim: 64, inner: 1536, state: 128, ssmHeads: 48, groups: 1, ff: 2048, tied: true, more: granite},
		{name: "nemotron-nano-9b-v2", arch: "nemotron_h", pattern: "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-", embd: 4480, vocab: 131072, ctx: 131072, heads: 40, headsKV: 8, dim: 128, inner: 10240, state: 128, ssmHeads: 128, groups: 8, ff: 15680, separate: true, plain: true},
		{name: "nemotron-3-nano-30b-a3b", arch: "nemotron_h_moe", pattern: "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", embd: 2688, vocab: 131072, ctx: 262144, heads: 32, headsKV: 2, dim: 128, inner: 4096, state: 128, ssmHeads: 64, groups: 8, experts: 128, used: 6, ffExp: 1856, shared: 3712, separate: true, plain: true, more: nano},
	} {
		all = append(all, s.published())
	}
	return all
}

func (s scanShape) published() published {
	keys := map[string]any{
		"context_length": u32(s.ctx), "embedding_length": u32(s.embd), "attention.head_count": u32(s.heads), "feed_forward_length": u32(max(s.ff, s.ffExp)),
		"attention.layer_norm_rms_epsilon": float32(1e-5), "ssm.conv_kernel": u32(4), "ssm.inner_size": u32(s.inner), "ssm.state_size": u32(s.state),
		"ssm.time_step_rank": u32(max(s.rank, s.ssmHeads)),
	}
	if s.groups > 0 {
		keys["ssm.group_count"] = u32(s.groups)
	}
	if s.heads > 0 {
		keys["attention.key_length"], keys["attention.value_length"] = u32(s.dim), u32(s.dim)
	}
	if s.experts > 0 {
		keys["expert_count"], keys["expert_used_count"] = u32(s.experts), u32(s.used)
	}
	if s.shared > 0 {
		keys["expert_shared_feed_forward_length"] = u32(s.shared)
	}
	var lines []string
	add := func(layer int, names string, dims ...int) {
		at := "-"
		if layer >= 0 {
			at = fmt.Sprintf("%d:%d", layer, layer+1)
		}
		for name := range strings.FieldsSeq(names) {
			lines = append(lines, at+" "+name+" "+strings.Trim(fmt.Sprint(dims), "[]"))
		}
	}
	add(-1, "token_embd", s.embd, s.vocab)
	add(-1, "output_norm", s.embd)
	if !s.tied {
		add(-1, "output", s.embd, s.vocab)
	}
	headsKV, ff := make([]int32, len(s.pattern)), make([]int32, len(s.pattern))
	for il, kind := range s.pattern {
		add(il, "attn_norm", s.embd)
		if kind == 'M' || kind == 'B' {
			s.scan(func(names string, dims ...int) { add(il, names, dims...) })
		}
		if kind == '*' || kind == 'B' {
			headsKV[il] = int32(s.headsKV)
			add(il, "attn_q", s.embd, s.heads*s.dim)
			add(il, "attn_k attn_v", s.embd, s.headsKV*s.dim)
			add(il, "attn_output", s.heads*s.dim, s.embd)
		}
		if s.separate && (kind == 'M' || kind == '*') || s.ff == 0 && s.experts == 0 {
			continue
		}
		if s.separate {
			ff[il] = int32(max(s.ff, s.ffExp))
		} else if s.arch == "falcon-h1" {
			add(il, "ffn_norm!", s.embd)
		} else {
			add(il, "ffn_norm", s.embd)
		}
		s.feedForward(il, func(names string, dims ...int) { add(il, names, dims...) })
	}
	if s.pattern[0] != 'B' && s.heads > 0 {
		keys["attention.head_count_kv"] = headsKV
	} else if s.heads > 0 {
		keys["attention.head_count_kv"] = u32(s.headsKV)
	}
	if s.separate {
		keys["feed_forward_length"] = ff
	}
	if s.separate && s.experts > 0 {
		keys["expert_feed_forward_length"] = u32(s.ffExp)
	}
	maps.Copy(keys, s.more)
	return published{s.name, s.arch, len(s.pattern), keys, strings.Join(lines, "\n"), s.check}
}

func (s scanShape) scan(add func(names string, dims ...int)) {
	if s.rank > 0 {
		add("ssm_in", s.embd, 2*s.inner)
		add("ssm_conv1d", 4, s.inner)
		add("ssm_conv1d.bias ssm_dt.bias ssm_d!", s.inner)
		add("ssm_x", s.inner, s.rank+2*s.state)
		add("ssm_dt", s.rank, s.inner)
		add("ssm_a!", s.state, s.inner)
		if s.arch == "jamba" {
			add("ssm_dt_norm", s.rank)
			add("ssm_b_norm ssm_c_norm", s.state)
		}
	} else {
		conv := s.inner + 2*s.groups*s.state
		add("ssm_in", s.embd, s.inner+conv+s.ssmHeads)
		add("ssm_conv1d", 4, conv)
		add("ssm_conv1d.bias", conv)
		add("ssm_dt.bias", s.ssmHeads)
		add("ssm_a! ssm_d!", 1, s.ssmHeads)
		if s.arch != "falcon-h1" {
			add("ssm_norm", s.inner/s.groups, s.groups)
		}
	}
	add("ssm_out", s.inner, s.embd)
}

func (s scanShape) feedForward(il int, add func(names string, dims ...int)) {
	if s.experts == 0 || s.arch == "jamba" && il%2 == 0 {
		if !s.plain {
			add("ffn_gate", s.embd, s.ff)
		}
		add("ffn_up", s.embd, s.ff)
		add("ffn_down", s.ff, s.embd)
		return
	}
	add("ffn_gate_inp", s.embd, s.experts)
	if !s.plain {
		add("ffn_gate_exps", s.embd, s.ffExp, s.experts)
	} else {
		add("exp_probs_b.bias", s.experts)
	}
	add("ffn_up_exps", s.embd, s.ffExp, s.experts)
	add("ffn_down_exps", s.ffExp, s.embd, s.experts)
	if s.shared > 0 {
		if !s.plain {
			add("ffn_gate_shexp", s.embd, s.shared)
		}
		add("ffn_up_shexp", s.embd, s.shared)
		add("ffn_down_shexp", s.shared, s.embd)
	}
}

func (s scanShape) check(c *Config) bool {
	want := arch.Scan{Inner: s.inner, State: s.state, NHead: s.ssmHeads, NGroup: s.groups, Rank: s.rank, NormAll: s.name == "falcon-mamba-7b"}
	for il, l := range c.Layers {
		kind := s.pattern[il]
		rotated := kind == 'B'
		if (l.NHeadKV > 0) != (kind == '*' || kind == 'B') || (l.Rope.NRot > 0) != rotated {
			return false
		}
	}
	return c.Scan == want && c.NFFShared == s.shared && (s.experts == 0 || c.NFFExpert == s.ffExp)
}
