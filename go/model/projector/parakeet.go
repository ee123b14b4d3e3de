package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// parakeet is the encoder of sounds of Nemotron Nano Omni (NVIDIA 2025), a Fast Conformer whose front end is in the file
// (ParakeetEncoder of transformers).
var parakeet = Kind{
	Name:  "parakeet",
	sense: Hearing,
	config: func(e *Encoder, k *Keys) {
		k.Bands()
		k.Config.Norm, k.Config.PostEps = kernel.LayerNorm, 1e-6
		if n := k.Int("subsampling_factor", 1, maxStack); n != 8 {
			k.Fail("subsampling_factor", "%d, want 8", n)
		}
		k.Int("conv_kernel_size", 1, maxStack) // as many taps as the tensors have
		if t := e.table(k, window, nemoWindow); t.rows != 1 {
			k.Fail("num_mel_bins", "a window of %d numbers, want %d", t.rows*nemoWindow, nemoWindow)
		}
		const bins = 257
		if t := e.table(k, melFilters, bins); t.rows != k.Config.Sound.Bands {
			k.Fail("num_mel_bins", "%d, for filters of %d bands", k.Config.Sound.Bands, t.rows)
		}
	},
	build: func(e *Encoder, b *Builder) {
		e.fastConformer(b)
		s := b.Beside(1).Norm(kernel.RMS, "mm.a.norm_pre")
		s.Applied(kernel.ReLU2, "mm.a.mlp.1").Product("mm.a.mlp.2").Out()
	},
	hear: func(e *Encoder, samples []float32) []Part {
		n := max(len(samples)/prepare.MelHop, 1)
		t := e.tables[window]
		shape := make([]float64, nemoWindow)
		for i, v := range t.v {
			shape[i] = float64(v)
		}
		front := nemo(e.Config.Sound.Bands, shape)
		front.Filters = e.tables[melFilters].v
		in := e.subsampled(e.subsampling(3), front.Unit(samples, n), n)
		return []Part{{Text: "<so_start>", Known: true}, {Input: in}, {Text: "<so_end>", Known: true}}
	},
}

// Tensors with the front end.
const (
	melFilters = "a.mel_filters"
	window     = "a.window"
)
