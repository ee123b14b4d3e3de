package arch

import (
	"math"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	. "github.com/quern-llm/quern/go/model/nn"
)

// The tensors of LongRoPE's factors.
const (
	shortFactors = "rope_factors_short.weight"
	longFactors  = "rope_factors_long.weight"
)

// layerOf reads layer 0 of a file with these keys.
func layerOf(t *testing.T, arch string, keys map[string]any, ctx int, tensors ...string) LayerConfig {
	t.Helper()
	w := gguf.NewWriter()
	w.Set("general.architecture", arch)
	for k, v := range map[string]any{
		"context_length": uint32(65536), "embedding_length": uint32(256), "block_count": uint32(2),
		"feed_forward_length": uint32(64), "attention.head_count": uint32(2),
		"attention.layer_norm_rms_epsilon": float32(1e-6), "attention.layer_norm_epsilon": float32(1e-6),
		"attention.kv_lora_rank": uint32(64), "attention.key_length_mla": uint32(112),
		"attention.value_length_mla": uint32(64),
	} {
		if _, ok := keys[k]; !ok {
			w.Set(arch+"."+k, v)
		}
	}
	for k, v := range keys {
		w.Set(arch+"."+k, v)
	}
	for _, name := range append(tensors, "token_embd.weight") {
		w.AddTensor(name, gguf.F32, []uint64{256, 1}, gguf.Bytes(make([]byte, 1024)))
	}
	f := parsed(t, w)
	cfg, err := ReadConfig(f)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.For(ctx).Layers[0]
}

const headDim, theta = 128, 10000.0

// plain is by how much pair i turns from one position to the next.
func plain(i int) float64 { return math.Pow(theta, -2*float64(i)/headDim) }

// yarnOf is YaRN as the paper has it: pairs with a wavelength of more than orig/slow positions are divided by the
// factor, those below orig/fast are not, and between there is a ramp over the pairs' indices, whose ends are rounded
// outwards.
func yarnOf(orig, factor, fast, slow, ext float64) func(i int) float64 {
	at := func(turns float64) float64 {
		return headDim * math.Log(orig/(turns*2*math.Pi)) / (2 * math.Log(theta))
	}
	low, high := max(math.Floor(at(fast)), 0), min(math.Ceil(at(slow)), headDim-1)
	if low == high {
		high += 0.001
	}
	return func(i int) float64 {
		far := min(max((float64(i)-low)/(high-low), 0), 1)
		keep := (1 - far) * ext
		return plain(i)/factor*(1-keep) + plain(i)*keep
	}
}

// Every way to stretch rotations, under the names of keys that there are or were, is what its paper or its reference
// code computes: the angles, at positions within the original context, at its end and far beyond, and the length of
// what is rotated.
func TestScalings(t *testing.T) {
	type keys = map[string]any
	ln := math.Log
	deepseek := keys{
		"rope.dimension_count": uint32(64), "rope.scaling.type": "yarn", "rope.scaling.factor": float32(40),
		"rope.scaling.original_context_length": uint32(4096),
		"rope.scaling.yarn_log_multiplier":     float32(0.1 * 0.707),
	}
	for _, tt := range []struct {
		name, arch string
		keys       keys
		ctx        int
		tensors    []string
		factors    func(i int) float32 // of the tensor that the rotations name
		turn       func(i int) float64
		length     float64
	}{
		{name: "none", keys: keys{}, turn: plain, length: 1},
		{name: "none, by name", keys: keys{"rope.scaling.type": "none", "rope.scaling.factor": float32(8)}, turn: plain,
			length: 1},
		{name: "linear", keys: keys{"rope.scaling.type": "linear", "rope.scaling.factor": float32(8)},
			turn: func(i int) float64 { return plain(i) / 8 }, length: 1},
		{name: "linear without a type", keys: keys{"rope.scaling.factor": float32(4)},
			turn: func(i int) float64 { return plain(i) / 4 }, length: 1},
		{name: "linear in old files", keys: keys{"rope.scale_linear": float32(2)},
			turn: func(i int) float64 { return plain(i) / 2 }, length: 1},
		{name: "linear of 0, which is none", keys: keys{"rope.scale_linear": float32(0)}, turn: plain, length: 1},
		{name: "yarn", keys: keys{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(16),
			"rope.scaling.original_context_length": uint32(4096)},
			turn: yarnOf(4096, 16, 32, 1, 1), length: 1 + 0.1*ln(16)},
		{name: "yarn whose factor has the old name",
			keys: keys{"rope.scaling.type": "yarn", "rope.scale_linear": float32(16),
				"rope.scaling.original_context_length": uint32(4096)},
			turn: yarnOf(4096, 16, 32, 1, 1), length: 1 + 0.1*ln(16)},
		{name: "yarn without an original context",
			keys: keys{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4)},
			turn: yarnOf(65536, 4, 32, 1, 1), length: 1 + 0.1*ln(4)},
		{name: "yarn with all of its parameters",
			keys: keys{
				"rope.scaling.type": "yarn", "rope.scaling.factor": float32(16),
				"rope.scaling.original_context_length": uint32(2048), "rope.scaling.yarn_beta_fast": float32(24),
				"rope.scaling.yarn_beta_slow": float32(2), "rope.scaling.yarn_ext_factor": float32(0.5),
				"rope.scaling.attn_factor": float32(1.5),
			},
			turn: yarnOf(2048, 16, 24, 2, 0.5), length: 1.5 * (1 + 0.1*ln(16))},
		{name: "yarn with a length of its own",
			keys: keys{
				"rope.scaling.type": "yarn", "rope.scaling.factor": float32(32),
				"rope.scaling.original_context_length": uint32(4096), "rope.scaling.yarn_attn_factor": float32(1.25),
			},
			turn: yarnOf(4096, 32, 32, 1, 1), length: 1.25},
		{name: "yarn that only interpolates",
			keys: keys{
				"rope.scaling.type": "yarn", "rope.scaling.factor": float32(8),
				"rope.scaling.original_context_length": uint32(4096), "rope.scaling.yarn_ext_factor": float32(0),
			},
			turn: func(i int) float64 { return plain(i) / 8 }, length: 1},
		{name: "yarn with a multiplier of the logarithm",
			keys: keys{
				"rope.scaling.type": "yarn", "rope.scaling.factor": float32(16),
				"rope.scaling.original_context_length": uint32(4096), "rope.scaling.yarn_log_multiplier": float32(1),
			},
			turn: yarnOf(4096, 16, 32, 1, 1), length: (1 + 0.1*ln(16)) / (1 + 0.1*ln(16))},
		// DeepSeek's mscale and mscale_all_dim are the same: rotated pairs keep their length, and scores grow.
		{name: "yarn of DeepSeek", arch: "deepseek2", keys: deepseek, length: 1},
		{name: "LongRoPE within the original context", arch: "phi3",
			keys: keys{"rope.scaling.original_context_length": uint32(4096),
				"rope.scaling.attn_factor": float32(1.19)},
			ctx:     4096,
			tensors: []string{longFactors, shortFactors}, factors: func(i int) float32 { return 1 + float32(i)/8 },
			turn: func(i int) float64 { return plain(i) / (1 + float64(i)/8) }, length: float64(float32(1.19))},
		{name: "LongRoPE beyond", arch: "phi3",
			keys: keys{"rope.scaling.original_context_length": uint32(4096), "rope.scaling.attn_factor": float32(1.19),
				"rope.scaling.type": "longrope"}, ctx: 4097,
			tensors: []string{longFactors, shortFactors}, factors: func(i int) float32 { return 1 + float32(i) },
			turn: func(i int) float64 { return plain(i) / (1 + float64(i)) }, length: float64(float32(1.19))},
		{name: "Llama 3", keys: keys{}, tensors: []string{"rope_freqs.weight"}, factors: llama3Factor,
			turn: func(i int) float64 { return plain(i) / float64(llama3Factor(i)) }, length: 1},
		{name: "NTK-aware", arch: "hunyuan-dense", keys: keys{"rope.scaling.alpha": float32(1000)},
			turn: func(i int) float64 {
				return math.Pow(theta*math.Pow(1000, headDim/(headDim-2.)), -2*float64(i)/headDim)
			}, length: 1},
		{name: "NTK-aware, in the base", keys: keys{"rope.freq_base": float32(11158840)},
			turn: func(i int) float64 { return math.Pow(11158840, -2*float64(i)/headDim) }, length: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := tt.arch
			if name == "" {
				name = "llama"
			}
			r := layerOf(t, name, tt.keys, tt.ctx, tt.tensors...).Rope
			var factors []float32
			if tt.factors != nil {
				for i := range r.NRot / 2 {
					factors = append(factors, tt.factors(i))
				}
				if want := tt.tensors[len(tt.tensors)-1]; tt.ctx == 4096 && r.Factors != want ||
					tt.ctx == 4097 && r.Factors != longFactors || len(tt.tensors) == 1 && r.Factors != want {
					t.Errorf("the factors are %s", r.Factors)
				}
			}
			if got := float64(r.Scale()); math.Abs(got-tt.length) > 1e-6 {
				t.Errorf("what is rotated has a length of %.8f, want %.8f", got, tt.length)
			}
			if tt.turn == nil {
				return
			}
			for i, got := range r.Freqs(factors) {
				for _, pos := range []float64{1, 4095, 4096, 4097, 65535, 1 << 20} {
					if want := tt.turn(i) * pos; math.Abs(got*pos-want) > 1e-9*max(1, want) {
						t.Fatalf("pair %d is at %.12g at position %g, want %.12g", i, got*pos, pos, want)
					}
				}
			}
		})
	}
}

// llama3Factor is by what the frequency of a pair is divided in files of Llama 3.1, whose factor is 8: nothing for
// wavelengths up to a quarter of 8192 positions, 8 for those longer than that, and between, parts of both (NTK by
// parts).
func llama3Factor(i int) float32 {
	const factor, low, high, orig = 8, 1, 4, 8192
	length := 2 * math.Pi / plain(i)
	switch {
	case length < orig/high:
		return 1
	case length > orig/low:
		return factor
	}
	smooth := (orig/length - low) / (high - low)
	return float32(1 / ((1-smooth)/factor + smooth))
}

// Scores of DeepSeek grow with the square of YaRN's length, by the multiplier that the file says.
func TestDeepSeekScale(t *testing.T) {
	for _, m := range []float64{0, 0.707, 1} {
		l := layerOf(t, "deepseek2", map[string]any{
			"rope.dimension_count": uint32(64), "rope.scaling.type": "yarn", "rope.scaling.factor": float32(40),
			"rope.scaling.original_context_length": uint32(4096),
			"rope.scaling.yarn_log_multiplier":     float32(0.1 * m),
		}, 0)
		grow := 1 + 0.1*m*math.Log(40)
		if want := grow * grow / math.Sqrt(112); math.Abs(float64(l.AttnScale)-want) > 1e-6 {
			t.Errorf("multiplier %g: scores are scaled by %g, want %g", m, l.AttnScale, want)
		}
	}
}
