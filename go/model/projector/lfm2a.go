package projector

import (
	"math"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// lfm2a is the encoder of sounds of LFM2-Audio (Liquid AI 2025), a Fast Conformer (Rekesh et al. 2023).
var lfm2a = Kind{
	Name:  "lfm2a",
	sense: Hearing,
	config: func(e *Encoder, k *Keys) {
		k.Bands()
		k.Config.Norm, k.Config.Eps = kernel.LayerNorm, 1e-5
		e.Unread = append(e.Unread, soundPositions, "a.position_embd_norm.", "a.embd_to_logits.") // of what is spoken
	},
	build: func(e *Encoder, b *Builder) {
		e.fastConformer(b)
		s := b.Beside(1).Norm(kernel.LayerNorm, "mm.a.mlp.0")
		s.Applied(kernel.GELUErf, "mm.a.mlp.1").Product("mm.a.mlp.3").Out()
	},
	Ask: Ask{System: "Perform ASR."},
	hear: func(e *Encoder, samples []float32) []Part {
		// As Liquid AI has it in llama.cpp: bands of no power are a floor, and a frame more than those that are normalised is zeros.
		n := max(len(samples)/prepare.MelHop, 2)
		front := nemo(e.Config.Sound.Bands, prepare.Hann(nemoWindow, true))
		front.Log = func(v float64) float64 { return exactmath.QuickLog(max(v, nemoFloor)) }
		spectrum := front.Unit(samples, n)
		return []Part{{Input: e.subsampled(e.subsampling(3), append(spectrum, make([]float32, front.Bands)...), n+1)}}
	},
}

// nemoWindow is the samples of a frame of NeMo's front end, and nemoFloor what is added to bands.
const (
	nemoWindow = 400
	nemoFloor  = 0x1p-24
)

// nemo is the front end of NeMo's models of speech, with a window.
func nemo(bands int, window []float64) prepare.Spectrum {
	return prepare.Spectrum{
		Bands: bands, Window: window, Lead: nemoWindow / 2, Preemphasis: 0.97,
		Log: func(v float64) float64 { return exactmath.QuickLog(v + nemoFloor) },
	}
}

// fastConformer is the encoder up to the norm of its last layer.
func (e *Encoder) fastConformer(b *Builder) {
	c := b.Config
	b.Thinned(e.subsampling(3))
	seen := SeesAll(c.NEmbd)
	seen.Matrix, seen.Key, seen.Query = "linear_pos.weight", 1, 1
	if len(c.Layers) > 0 {
		seen.Query = float32(1 / math.Sqrt(float64(c.Layers[0].HeadDim)))
	}
	b.Turn(seen.Freqs)
	b.BegunRows()
	b.TensorPrefix = "a."
	b.RowLayers(func(l Layer) {
		l.HalfStep("")
		l.RelativeAttention("ln1", seen, "attn_out", "attn_post_norm")
		l.Convolve(ConvModule{Norm: "norm_conv", Inner: "conv_norm", Batch: true, Ahead: -1})
		l.HalfStep("_1")
		l.Normalise("ln2")
	}, nil)
}
