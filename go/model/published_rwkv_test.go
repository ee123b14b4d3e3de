package model

import (
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/model/arch"
)

// An rwkvShape is the sizes in which published models of RWKV 7 differ.
type rwkvShape struct {
	name                    string
	layers, embd, ff, vocab int
	sizes                   arch.RWKV
	dummies                 bool // the first layer has a share of the first layer's value
}

// publishedRWKV are the files of RWKV 7 World and G1.
func publishedRWKV() []published {
	var all []published
	for _, s := range []rwkvShape{
		{"rwkv7-world-0.1b", 12, 768, 3072, 65536, arch.RWKV{HeadDim: 64, Decay: 64, Rate: 64, Value: 32, Gate: 128}, true},
		{"rwkv7-world-0.4b", 24, 1024, 4096, 65536, arch.RWKV{HeadDim: 64, Decay: 64, Rate: 64, Value: 32, Gate: 128}, true},
		{"rwkv7-world-1.5b", 24, 2048, 8192, 65536, arch.RWKV{HeadDim: 64, Decay: 96, Rate: 96, Value: 64, Gate: 256}, true},
		{"rwkv7-g1-2.9b", 32, 2560, 10240, 65536, arch.RWKV{HeadDim: 64, Decay: 96, Rate: 96, Value: 64, Gate: 320}, false},
	} {
		all = append(all, s.published())
	}
	return all
}

func (s rwkvShape) published() published {
	r := s.sizes
	keys := map[string]any{
		"context_length": u32(1 << 20), "embedding_length": u32(s.embd), "feed_forward_length": u32(s.ff), "attention.head_count": u32(0),
		"attention.layer_norm_epsilon": float32(1e-5), "wkv.head_size": u32(r.HeadDim), "attention.decay_lora_rank": u32(r.Decay), "attention.iclr_lora_rank": u32(r.Rate),
		"attention.value_residual_mix_lora_rank": u32(r.Value), "attention.gate_lora_rank": u32(r.Gate),
	}
	var lines []string
	add := func(layers, names string, dims ...int) {
		for name := range strings.FieldsSeq(names) {
			lines = append(lines, layers+" "+name+" "+strings.Trim(fmt.Sprint(dims), "[]"))
		}
	}
	add("-", "token_embd output", s.embd, s.vocab)
	add("-", "output_norm", s.embd)
	add("*", "time_mix_w0 time_mix_a0 time_mix_k_k time_mix_k_a time_mix_r_k attn_norm", s.embd)
	add("*", "time_mix_lerp_fused", s.embd, 1, 1, 6)
	low := func(layers, of string, rank int) {
		add(layers, "time_mix_"+of+"1", s.embd, rank)
		add(layers, "time_mix_"+of+"2", rank, s.embd)
	}
	low("*", "w", r.Decay)
	low("*", "a", r.Rate)
	low("1:", "v", r.Value)
	add("1:", "time_mix_v0", s.embd)
	if s.dummies {
		low("0:1", "v", r.Rate)
		add("0:1", "time_mix_v0", s.embd)
	}
	low("*", "g", r.Gate)
	add("*", "time_mix_receptance time_mix_key time_mix_value time_mix_output", s.embd, s.embd)
	add("-", "output_norm.bias token_embd_norm token_embd_norm.bias", s.embd)
	add("*", "attn_norm.bias attn_norm_2 attn_norm_2.bias channel_mix_lerp_k time_mix_ln time_mix_ln.bias", s.embd)
	add("*", "channel_mix_key", s.embd, s.ff)
	add("*", "channel_mix_value", s.ff, s.embd)
	return published{s.name, "rwkv7", s.layers, keys, strings.Join(lines, "\n"), func(c *Config) bool {
		return c.RWKV == s.sizes && len(c.Layers) == s.layers && c.Layers[0].NFF == s.ff
	}}
}
