package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// dots3NoteA is the encoder of sounds of dots3-note (2026): three convolutions over a minute, and gated layers whose tokens turn by
// halves of their heads.
var dots3NoteA = Kind{
	Name:  "dots3note_a",
	sense: Hearing,
	config: func(e *Encoder, k *Keys) {
		k.Bands()
		c := k.Config
		c.Norm, c.PostEps = kernel.RMS, 1e-5 // of torch's LayerNorm
		e.Fn, e.Gated = kernel.SiLU, true
		for i := range c.Layers {
			l := &c.Layers[i]
			if l.HeadDim%4 != 0 {
				k.Fail("attention.head_count", "heads of %d dimensions, want a multiple of 4 to rotate a half", l.HeadDim)
			}
			l.Rope = Rope{Style: kernel.RopeNeox, NRot: l.HeadDim / 2, Base: 10000, Scaling: NoScaling}
		}
	},
	build: func(e *Encoder, b *Builder) {
		p := e.planes()
		b.Planes(p)
		b.BringMask(p.Columns())
		b.Mask()
		b.BegunRows()
		e.layers(b, nil)
		b.Normalise("a.post_ln")
		s := b.Beside(1).Norm(kernel.LayerNorm, "mm.a.norm_pre")
		s.Applied(kernel.GELUErf, "mm.a.mlp.1").Product("mm.a.mlp.3").Out()
	},
	hear: func(e *Encoder, samples []float32) (parts []Part) {
		const each = 60 * prepare.MelRate
		for from := 0; from < len(samples) || from == 0; from += each {
			parts = append(parts, Part{Input: e.minute(samples[from:min(from+each, len(samples))], each)})
		}
		return said("<|audio_comp_start|>", parts, "<|audio_comp_end|>")
	},
}

// minute returns the input of a sound of up to `full` samples. A token of whose samples there is no whole frame begins with zeros.
func (e *Encoder) minute(samples []float32, full int) *Input {
	const step, around = 8, 7 // frames of a token, and those beside its own that it is made of
	p, bands := e.planes(), e.Config.Sound.Bands
	frames := len(samples) / prepare.MelHop
	mel := prepare.NewMel(samples, bands, min(frames+3, full/prepare.MelHop), len(samples) == full) // the loudest may be behind the last
	tokens := max((len(samples)+step*prepare.MelHop-1)/(step*prepare.MelHop), 1)
	return &Input{
		Tokens: tokens, Columns: p.Columns() + 1, Made: tokens,
		Row: func(dst []float32, i int) {
			first := max(step*i-around, 0)
			spectrum := make([]float32, (2*around+1)*bands)
			for f := first; f < min(step*i+around+1, frames); f++ {
				mel.Frame(spectrum[(f-first)*bands:][:bands], f)
			}
			p.Fill(dst, i, frames, func(frame, band int) float32 { return spectrum[(frame-first)*bands+band] })
			if dst[p.Columns()] = 0; i < p.Times(frames) {
				dst[p.Columns()] = 1
			}
		},
	}
}
