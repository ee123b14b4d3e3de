package model

import (
	"fmt"
	"maps"
	"strings"
)

// gemma4Keys is what all files of Gemma 4 have, with one layer of six that sees all positions.
func gemma4Keys(layers int, more map[string]any) map[string]any {
	windowed := make([]bool, layers)
	for il := range windowed {
		windowed[il] = il%6 != 5
	}
	k := map[string]any{
		"attention.key_length": u32(512), "attention.value_length": u32(512),
		"attention.key_length_swa": u32(256), "attention.value_length_swa": u32(256),
		"rope.dimension_count": u32(512), "rope.dimension_count_swa": u32(256), "rope.freq_base": float32(1e6), "rope.freq_base_swa": float32(1e4),
		"attention.layer_norm_rms_epsilon": float32(1e-6), "attention.sliding_window_pattern": windowed, "final_logit_softcapping": float32(30),
	}
	maps.Copy(k, more)
	return k
}

// gemma4KVHeads is the heads of keys and values where they differ by layer.
func gemma4KVHeads(layers int, window, all int32) []int32 {
	n := make([]int32, layers)
	for il := range n {
		n[il] = window
		if il%6 == 5 {
			n[il] = all
		}
	}
	return n
}

// gemma4Tensors is the tensors of all, of a width, with so many heads in layers with a window and in
// those without, where values have a projection or not; own layers have keys and values.
func gemma4Tensors(embd, ff, heads, window, all, own, layers int, values bool) string {
	var s strings.Builder
	add := func(layers, format string, args ...any) { fmt.Fprintf(&s, layers+" "+format+"\n", args...) }
	add("-", "token_embd %d 262144", embd)
	add("-", "output_norm %d", embd)
	add("-", "rope_freqs 256")
	for _, name := range []string{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"} {
		add("*", "%s %d", name, embd)
	}
	add("*", "layer_output_scale 1")
	add("*", "ffn_gate %d %d", embd, ff)
	add("*", "ffn_up %d %d", embd, ff)
	add("*", "ffn_down %d %d", ff, embd)
	for il := range layers {
		dim, kv, at := 256, window, fmt.Sprintf("%d:%d", il, il+1)
		if il%6 == 5 {
			dim, kv = 512, all
		}
		add(at, "attn_q %d %d", embd, heads*dim)
		add(at, "attn_q_norm %d", dim)
		add(at, "attn_output %d %d", heads*dim, embd)
		if il >= own {
			continue
		}
		add(at, "attn_k %d %d", embd, kv*dim)
		add(at, "attn_k_norm %d", dim)
		if dim == 256 || values {
			add(at, "attn_v %d %d", embd, kv*dim)
		}
	}
	return strings.TrimSpace(s.String())
}

var publishedGemma = []published{
	{
		"Gemma-4-26B-A4B", "gemma4", 30, gemma4Keys(30, map[string]any{
			"context_length": u32(262144), "embedding_length": u32(2816), "feed_forward_length": u32(2112),
			"attention.head_count": u32(16), "attention.head_count_kv": gemma4KVHeads(30, 8, 2), "attention.sliding_window": u32(1024),
			"attention.shared_kv_layers": u32(0), "embedding_length_per_layer_input": u32(0),
			"expert_count": u32(128), "expert_used_count": u32(8), "expert_feed_forward_length": u32(704),
		}), gemma4Tensors(2816, 2112, 16, 8, 2, 30, 30, false) + `
* ffn_gate_inp 2816 128
* ffn_gate_inp.scale 2816
* pre_ffw_norm_2 2816
* post_ffw_norm_1 2816
* post_ffw_norm_2 2816
* ffn_gate_up_exps 2816 1408 128
* ffn_down_exps 704 2816 128
* ffn_down_exps.scale 128`,
		func(c *Config) bool {
			l := c.Layers
			return l[0].HeadDim == 256 && l[0].NHeadKV == 8 && l[0].Window == 1024 && l[5].HeadDim == 512 && l[5].NHeadKV == 2 && l[5].Window == 0
		},
	},
	{
		"Gemma-4-E4B", "gemma4", 42, gemma4Keys(42, map[string]any{
			"context_length": u32(131072), "embedding_length": u32(2560), "feed_forward_length": u32(10240),
			"attention.head_count": u32(8), "attention.head_count_kv": u32(2), "attention.sliding_window": u32(512),
			"attention.shared_kv_layers": u32(18), "embedding_length_per_layer_input": u32(256),
		}), gemma4Tensors(2560, 10240, 8, 2, 2, 24, 42, true) + `
- per_layer_token_embd 10752 262144
- per_layer_model_proj 2560 10752
- per_layer_proj_norm 256
* inp_gate 2560 256
* proj 256 2560
* post_norm 2560`,
		func(c *Config) bool {
			return c.NPerLayer == 256 && !c.Layers[23].Shared && c.Layers[24].Shared && c.Layers[41].Rope.NRot == 512
		},
	},
	{
		"Gemma-4-31B", "gemma4", 60, gemma4Keys(60, map[string]any{
			"context_length": u32(262144), "embedding_length": u32(5376), "feed_forward_length": u32(21504),
			"attention.head_count": u32(32), "attention.head_count_kv": gemma4KVHeads(60, 16, 4), "attention.sliding_window": u32(1024),
			"attention.shared_kv_layers": u32(0), "embedding_length_per_layer_input": u32(0),
		}), gemma4Tensors(5376, 21504, 32, 16, 4, 60, 60, false),
		func(c *Config) bool { return c.Layers[59].NHeadKV == 4 && c.Layers[59].AttnScale == 1 },
	},
}
