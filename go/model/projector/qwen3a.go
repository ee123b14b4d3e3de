package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// qwen3a is the encoder of Qwen3-Omni and Qwen3-ASR (AuT, Xu et al. 2025): convolutions over seconds, and layers whose tokens
// see those of eight of them.
var qwen3a = Kind{
	Name:  "qwen3a",
	sense: Hearing,
	config: func(e *Encoder, k *Keys) {
		k.Bands()
		k.Config.Norm, e.Fn = kernel.LayerNorm, kernel.GELUErf
		if t := e.table(k, soundPositions, k.Config.NEmbd); t.rows < (Planes{}).Times(framesOfSecond) {
			k.Fail("embedding_length", "%d embeddings of positions, want one for each time of a second", t.rows)
		}
	},
	build: func(e *Encoder, b *Builder) {
		p := e.planes()
		b.Planes(p)
		b.Brought(p.Columns())
		b.BegunRows()
		e.layers(b, nil)
		b.Normalise("a.post_ln")
		b.Beside(1).Applied(kernel.GELUErf, "mm.a.mlp.1").Product("mm.a.mlp.2").Out()
	},
	hear: func(e *Encoder, samples []float32) []Part {
		var parts []Part
		frames := len(samples)/prepare.MelHop + 1
		mel := prepare.NewMel(samples, e.Config.Sound.Bands, frames, true)
		const window = 8 * framesOfSecond // n_window_infer in config.json
		for from := 0; from < frames; from += window {
			parts = append(parts, Part{Input: e.seconds(mel, from, min(from+window, frames))})
		}
		return said("<|audio_start|>", parts, "<|audio_end|>")
	},
}

// framesOfSecond is twice n_window in config.json.
const framesOfSecond = 100

func (e *Encoder) planes() Planes { return PlanesOf(e.Config.Sound.Bands) }

// seconds returns the input of frames, in seconds of which each is convolved alone. Behind the last frame there are zeros.
func (e *Encoder) seconds(mel *prepare.Mel, from, to int) *Input {
	p, t, bands := e.planes(), e.tables[soundPositions], e.Config.Sound.Bands
	times := p.Times(framesOfSecond)
	n := (to - from + framesOfSecond - 1) / framesOfSecond * times
	return &Input{
		Tokens: n, Columns: p.Columns() + t.columns, Made: n,
		Row: func(dst []float32, i int) {
			first, spectrum := i/times*framesOfSecond, make([]float32, framesOfSecond*bands)
			for f := range min(framesOfSecond, to-from-first) {
				mel.Frame(spectrum[f*bands:][:bands], from+first+f)
			}
			p.Fill(dst, i%times, framesOfSecond, func(frame, band int) float32 { return spectrum[frame*bands+band] })
			copy(dst[p.Columns():], t.row(i%times))
		},
	}
}
