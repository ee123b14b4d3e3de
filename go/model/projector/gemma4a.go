package projector

import (
	"math"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// gemma4a is the encoder of sounds of Gemma 4 E2B and E4B (2026), a conformer whose tokens see the last twelve (Zhang et al.
// 2023, "USM").
var gemma4a = Kind{
	Name:  "gemma4a",
	sense: Hearing,
	config: func(e *Encoder, k *Keys) {
		k.Bands()
		c := k.Config
		c.Norm, c.Eps, c.AttnCap = kernel.RMS, 1e-6, 50 // of Gemma4AudioConfig: files have another epsilon
	},
	build: func(e *Encoder, b *Builder) {
		c := b.Config
		b.Subsampled(e.subsampling(2), c.Eps, "a.input_projection")
		seen := SeesLast(12, func(distance int) []float32 { return sines(distance, c.NEmbd) })
		seen.Matrix, seen.Key = "attn_k_rel.weight", float32(exactmath.Log1p(math.E)/math.Ln2)
		if len(c.Layers) > 0 {
			seen.Query = float32(1 / (math.Sqrt(float64(c.Layers[0].HeadDim)) * math.Ln2))
		}
		b.Turn(seen.Freqs)
		b.BegunRows()
		b.TensorPrefix = "a."
		b.RowLayers(func(l Layer) {
			l.HalfStep("")
			norm := "ln1"
			if l.Has("attn_pre_norm.weight") {
				norm = "attn_pre_norm"
			}
			l.RelativeAttention(norm, seen, "attn_out", "attn_post_norm")
			l.Convolve(ConvModule{Norm: "conv_norm", Inner: "norm_conv"}) // files have each other's names
			l.HalfStep("_1")
			l.Normalise("ln2")
		}, nil)
		s := b.Beside(1).Product("a.pre_encode.out")
		norm := ""
		if b.Has("mm.a.soft_emb_norm.weight") {
			norm = "mm.a.soft_emb_norm"
		}
		s.Norm(kernel.RMS, norm).Product("mm.a.input_projection").Out()
	},
	Ask: gemma4Ask,
	hear: func(e *Encoder, samples []float32) []Part {
		const window, each = 320, 30 * prepare.MelRate // frames of 20 ms, and sounds of 30 s
		front := prepare.Spectrum{
			Bands: e.Config.Sound.Bands, Window: prepare.Hann(window, true), Lead: window / 2, HTK: true, Magnitude: true,
			Log: func(v float64) float64 { return exactmath.QuickLog(v + 1e-3) },
		}
		var parts []Part
		for from := 0; from < len(samples); from += each {
			x := samples[from:min(from+each, len(samples))]
			frames := max(len(x)+window/2-window-1, 0)/prepare.MelHop + 1
			parts = append(parts, Part{Input: e.subsampled(e.subsampling(2), front.Frames(x, frames), frames)})
		}
		return said("<|audio>", parts, "<audio|>")
	},
}

// sines returns the sines of a number, times frequencies from 1 to 1/10000, and then its cosines.
func sines(x, n int) []float32 {
	v := make([]float32, n)
	for f := range n / 2 {
		rate := 1.0
		if f > 0 {
			rate = exactmath.Pow(10000, -float64(f)/float64(n/2-1))
		}
		v[f], v[n/2+f] = float32(exactmath.Sin(float64(x)*rate)), float32(exactmath.Cos(float64(x)*rate))
	}
	return v
}

// subsampling returns the convolutions that a conformer begins with.
func (e *Encoder) subsampling(levels int) Subsampling {
	return Subsampling{Levels: levels, Bands: e.Config.Sound.Bands}
}

// subsampled returns the input of a spectrum of so many frames.
func (e *Encoder) subsampled(s Subsampling, spectrum []float32, frames int) *Input {
	n := s.Times(frames)
	return &Input{
		Tokens: n, Columns: s.Columns(), Made: n,
		Row: func(dst []float32, i int) {
			s.Fill(dst, i, frames, func(frame, band int) float32 { return spectrum[frame*s.Bands+band] })
		},
	}
}
