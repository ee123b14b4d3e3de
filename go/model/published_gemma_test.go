package model

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
)

// gemmaWindows says that layers have a window but for one of so many.
func gemmaWindows(layers, every int) []bool {
	windowed := make([]bool, layers)
	for il := range windowed {
		windowed[il] = (il+1)%every != 0
	}
	return windowed
}

// gemma4Keys is what all files of Gemma 4 have, with one layer of so many that sees all positions.
func gemma4Keys(layers, every int, more map[string]any) map[string]any {
	k := map[string]any{
		"attention.key_length": u32(512), "attention.value_length": u32(512),
		"attention.key_length_swa": u32(256), "attention.value_length_swa": u32(256),
		"rope.dimension_count": u32(512), "rope.dimension_count_swa": u32(256), "rope.freq_base": float32(1e6), "rope.freq_base_swa": float32(1e4),
		"attention.layer_norm_rms_epsilon": float32(1e-6), "attention.sliding_window_pattern": gemmaWindows(layers, every),
		"final_logit_softcapping": float32(30),
	}
	maps.Copy(k, more)
	return k
}

// gemma4KVHeads is the heads of keys and values where they differ by layer.
func gemma4KVHeads(layers int, window, all int32) []int32 {
	n := make([]int32, layers)
	for il, windowed := range gemmaWindows(layers, 6) {
		if n[il] = all; windowed {
			n[il] = window
		}
	}
	return n
}

// doubled is a width in each layer, and twice that from a layer on.
func doubled(layers, from, n int) []int32 {
	of := slices.Repeat([]int32{int32(n)}, layers)
	for il := from; il < layers; il++ {
		of[il] *= 2
	}
	return of
}

// gemma4 is the sizes of a model: one layer of `every` sees all positions and has `all` heads of keys and
// values, the others `window`. Layers from wide on have twice the feed-forward. Where noValues is set, keys
// are the values of layers without a window.
type gemma4 struct {
	embd, ff, heads, window, all, every, layers, wide int
	noValues                                          bool
}

// tensors is those that all have.
func (g gemma4) tensors() string {
	var s strings.Builder
	add := func(layers, format string, args ...any) { fmt.Fprintf(&s, layers+" "+format+"\n", args...) }
	add("-", "token_embd %d 262144", g.embd)
	add("-", "output_norm %d", g.embd)
	add("-", "rope_freqs 256")
	for _, name := range []string{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"} {
		add("*", "%s %d", name, g.embd)
	}
	add("*", "layer_output_scale 1")
	for il, windowed := range gemmaWindows(g.layers, g.every) {
		dim, kv, ff, at := 512, g.all, g.ff, fmt.Sprintf("%d:%d", il, il+1)
		if windowed {
			dim, kv = 256, g.window
		}
		if g.wide > 0 && il >= g.wide {
			ff *= 2
		}
		add(at, "ffn_gate %d %d", g.embd, ff)
		add(at, "ffn_up %d %d", g.embd, ff)
		add(at, "ffn_down %d %d", ff, g.embd)
		add(at, "attn_q %d %d", g.embd, g.heads*dim)
		add(at, "attn_q_norm %d", dim)
		add(at, "attn_output %d %d", g.heads*dim, g.embd)
		add(at, "attn_k %d %d", g.embd, kv*dim)
		add(at, "attn_k_norm %d", dim)
		if windowed || !g.noValues {
			add(at, "attn_v %d %d", g.embd, kv*dim)
		}
	}
	return strings.TrimSpace(s.String())
}

// perLayerTensors is those of embeddings for each layer.
func perLayerTensors(embd, layers, vocab int) string {
	return fmt.Sprintf(`
- per_layer_token_embd %[2]d %[3]d
- per_layer_model_proj %[1]d %[2]d
- per_layer_proj_norm 256
* inp_gate %[1]d 256
* proj 256 %[1]d
* post_norm %[1]d`, embd, 256*layers, vocab)
}

// gemmaTensors is what the models before Gemma 3n have, with all widths of heads 256.
func gemmaTensors(embd, ff, heads, kv, vocab int, more ...string) string {
	s := fmt.Sprintf(`
- token_embd %[1]d %[5]d
- output_norm %[1]d
* attn_norm %[1]d
* attn_q %[1]d %[3]d
* attn_k %[1]d %[4]d
* attn_v %[1]d %[4]d
* attn_output %[3]d %[1]d
* ffn_norm %[1]d
* ffn_gate %[1]d %[2]d
* ffn_up %[1]d %[2]d
* ffn_down %[2]d %[1]d`, embd, ff, 256*heads, 256*kv, vocab)
	for _, name := range more {
		n := embd
		if name == "attn_q_norm" || name == "attn_k_norm" {
			n = 256
		}
		s += fmt.Sprintf("\n* %s %d", name, n)
	}
	return s
}

var publishedGemma = []published{
	{
		"Gemma-4-26B-A4B", "gemma4", 30, gemma4Keys(30, 6, map[string]any{
			"context_length": u32(262144), "embedding_length": u32(2816), "feed_forward_length": u32(2112),
			"attention.head_count": u32(16), "attention.head_count_kv": gemma4KVHeads(30, 8, 2), "attention.sliding_window": u32(1024),
			"attention.shared_kv_layers": u32(0), "embedding_length_per_layer_input": u32(0),
			"expert_count": u32(128), "expert_used_count": u32(8), "expert_feed_forward_length": u32(704),
		}), gemma4{embd: 2816, ff: 2112, heads: 16, window: 8, all: 2, every: 6, layers: 30, noValues: true}.tensors() + `
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
		"Gemma-4-E4B", "gemma4", 42, gemma4Keys(42, 6, map[string]any{
			"context_length": u32(131072), "embedding_length": u32(2560), "feed_forward_length": u32(10240),
			"attention.head_count": u32(8), "attention.head_count_kv": u32(2), "attention.sliding_window": u32(512),
			"attention.shared_kv_layers": u32(18), "embedding_length_per_layer_input": u32(256),
		}), gemma4{embd: 2560, ff: 10240, heads: 8, window: 2, all: 2, every: 6, layers: 42}.tensors() + perLayerTensors(2560, 42, 262144),
		func(c *Config) bool {
			return c.NPerLayer == 256 && !c.Layers[23].Shared && c.Layers[24].Shared && c.Layers[41].Rope.NRot == 512
		},
	},
	{
		"Gemma-4-31B", "gemma4", 60, gemma4Keys(60, 6, map[string]any{
			"context_length": u32(262144), "embedding_length": u32(5376), "feed_forward_length": u32(21504),
			"attention.head_count": u32(32), "attention.head_count_kv": gemma4KVHeads(60, 16, 4), "attention.sliding_window": u32(1024),
			"attention.shared_kv_layers": u32(0), "embedding_length_per_layer_input": u32(0),
		}), gemma4{embd: 5376, ff: 21504, heads: 32, window: 16, all: 4, every: 6, layers: 60, noValues: true}.tensors(),
		func(c *Config) bool { return c.Layers[59].NHeadKV == 4 && c.Layers[59].AttnScale == 1 },
	},
	{
		"Gemma-4-E2B", "gemma4", 35, gemma4Keys(35, 5, map[string]any{
			"context_length": u32(131072), "embedding_length": u32(1536), "feed_forward_length": doubled(35, 15, 6144),
			"attention.head_count": u32(8), "attention.head_count_kv": u32(1), "attention.sliding_window": u32(512),
			"attention.shared_kv_layers": u32(20), "embedding_length_per_layer_input": u32(256),
		}), gemma4{embd: 1536, ff: 6144, heads: 8, window: 1, all: 1, every: 5, layers: 35, wide: 15}.tensors() +
			perLayerTensors(1536, 35, 262144),
		func(c *Config) bool {
			return c.Layers[14].NFF == 6144 && c.Layers[15].NFF == 12288 && c.Layers[15].Shared && !c.Layers[14].Shared && c.Layers[14].Window == 0
		},
	},
	{
		"Gemma-3n-E4B", "gemma3n", 35, map[string]any{
			"context_length": u32(32768), "embedding_length": u32(2048), "feed_forward_length": slices.Repeat([]int32{16384}, 35),
			"attention.head_count": u32(8), "attention.head_count_kv": u32(2), "attention.key_length": u32(256), "attention.value_length": u32(256),
			"attention.layer_norm_rms_epsilon": float32(1e-6), "attention.sliding_window": u32(512),
			"attention.sliding_window_pattern": gemmaWindows(35, 5), "attention.shared_kv_layers": u32(15),
			"rope.freq_base": float32(1e6), "rope.freq_base_swa": float32(1e4), "embedding_length_per_layer_input": u32(256),
			"altup.active_idx": u32(0), "altup.num_inputs": u32(4), "activation_sparsity_scale": slices.Concat(
				slices.Repeat([]float32{1.6448534}, 10), slices.Repeat([]float32{float32(math.Inf(-1))}, 25)),
		}, gemmaTensors(2048, 16384, 8, 2, 262400, "post_attention_norm", "post_ffw_norm", "attn_q_norm", "attn_k_norm") +
			perLayerTensors(2048, 35, 262400) + `
- altup_proj 2048 2048 3
- altup_unembd_proj 2048 2048 3
* altup_correct_coef 4 4
* altup_correct_scale 2048
* altup_predict_coef 4 16
* altup_router 2048 4
* altup_router_norm 2048
* laurel_l 2048 64
* laurel_r 64 2048
* laurel_post_norm 2048`,
		func(c *Config) bool {
			l := c.Layers
			return l[9].GateCutoff > 1.6 && l[10].GateCutoff == 0 && !l[19].Shared && l[20].Shared && l[19].Window == 0 && l[18].Window == 512 &&
				c.LogitCap == 30
		},
	},
	{
		"Gemma-3-4B", "gemma3", 34, map[string]any{
			"context_length": u32(131072), "embedding_length": u32(2560), "feed_forward_length": u32(10240),
			"attention.head_count": u32(8), "attention.head_count_kv": u32(4), "attention.key_length": u32(256), "attention.value_length": u32(256),
			"attention.layer_norm_rms_epsilon": float32(1e-6), "attention.sliding_window": u32(1024),
			"rope.freq_base": float32(1e6), "rope.scaling.type": "linear", "rope.scaling.factor": float32(8),
		}, gemmaTensors(2560, 10240, 8, 4, 262208, "post_attention_norm", "post_ffw_norm", "attn_q_norm", "attn_k_norm"),
		func(c *Config) bool {
			l := c.Layers
			return l[4].Window == 1024 && l[5].Window == 0 && l[5].Rope.Scaling != l[4].Rope.Scaling && l[4].Rope.Base == 1e4
		},
	},
	{
		"Gemma-2-9B", "gemma2", 42, map[string]any{
			"context_length": u32(8192), "embedding_length": u32(3584), "feed_forward_length": u32(14336),
			"attention.head_count": u32(16), "attention.head_count_kv": u32(8), "attention.key_length": u32(256), "attention.value_length": u32(256),
			"attention.layer_norm_rms_epsilon": float32(1e-6), "attention.sliding_window": u32(4096),
			"attn_logit_softcapping": float32(50), "final_logit_softcapping": float32(30),
		}, gemmaTensors(3584, 14336, 16, 8, 256000, "post_attention_norm", "post_ffw_norm"),
		func(c *Config) bool {
			return c.Layers[0].Window == 4096 && c.Layers[1].Window == 0 && c.AttnCap == 50 && c.Layers[0].AttnScale == 1.0/16
		},
	},
	{
		"Gemma-7B", "gemma", 28, map[string]any{
			"context_length": u32(8192), "embedding_length": u32(3072), "feed_forward_length": u32(24576),
			"attention.head_count": u32(16), "attention.head_count_kv": u32(16), "attention.key_length": u32(256), "attention.value_length": u32(256),
			"attention.layer_norm_rms_epsilon": float32(1e-6),
		}, gemmaTensors(3072, 24576, 16, 16, 256000),
		func(c *Config) bool { return c.Layers[0].HeadDim == 256 && c.EmbedScale > 55 && c.EmbedScale < 56 },
	},
}

// Layers that read the keys and values of others hold nothing, those with a window only that, and the
// table of embeddings for each layer stays in the file, of which a token reads one row.
func TestPublishedGemmaMemory(t *testing.T) {
	kv := kernel.KVTypes{K: kernel.KVI16, V: kernel.KVI16}
	block := func(heads, dim int) int { return kernel.KVBytes(kv, heads, dim, dim) }
	pages := func(n int) int { return (n + 4095) / 4096 * 4096 }
	for _, tt := range []struct {
		name     string
		all, win int    // bytes of a block
		window   int    // positions
		table    uint64 // numbers
		unused   uint64 // numbers of keys and values of layers that have none
	}{
		{"Gemma-4-26B-A4B", 5 * block(2, 512), 25 * block(8, 256), 1024, 0, 0},
		{"Gemma-4-E4B", 4 * block(2, 512), 20 * block(2, 256), 512, 10752 * 262144, 15*2*2560*512 + 3*2*2560*1024},
		{"Gemma-4-E2B", 3 * block(1, 512), 12 * block(1, 256), 512, 8960 * 262144, 16*2*1536*256 + 4*2*1536*512},
		{"Gemma-3n-E4B", 4 * block(2, 256), 16 * block(2, 256), 512, 8960 * 262400, 15 * 2 * 2048 * 512},
	} {
		p := publishedGemma[slices.IndexFunc(publishedGemma, func(p published) bool { return p.name == tt.name })]
		f, err := OpenFile(p.write(t, "", ""))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s, err := NewSurvey(f, kv, 0)
		if err != nil {
			t.Fatal(err)
		}
		got := map[int]int{}
		for _, g := range s.Layout {
			got[g.Window] = g.Bytes
		}
		if len(got) != 2 || got[0] != pages(tt.all) || got[tt.window] != pages(tt.win) {
			t.Errorf("%s: blocks of %v, want %d and %d, in whole pages", p.name, got, tt.all, tt.win)
		}
		e, err := s.Memory(Use{Ctx: 4096, Sequences: 1, Batch: 512, MaxOut: 1, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		weights := uint64(0) // in the file's types, which panels are as large as
		for _, x := range f.GGUF.Tensors {
			weights += uint64(len(x.Data))
		}
		if weights -= 2 * (tt.table + tt.unused); e.Weights < weights-weights/1000 || e.Weights > weights+weights/100 {
			t.Errorf("%s: %d bytes of weights, want %d", p.name, e.Weights, weights)
		}
	}
}
