package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// What projectors of Whisper's encoder (Radford et al. 2022) have in common. It hears windows of as many frames as it has
// embeddings of positions, two for each: the last window of a sound is silent behind it.

// soundPositions is the tensor with the embeddings of positions.
const soundPositions = "a.position_embd.weight"

// around is how many frames a token of Whisper's encoder is made of: see Builder.Convolved.
const around = 5

func (e *Encoder) whisper(k *Keys) {
	k.Bands()
	k.Config.Norm, e.Fn, e.Stack = kernel.LayerNorm, kernel.GELUErf, 1
	e.table(k, soundPositions, k.Config.NEmbd)
}

// stacked is whisper with rows of several frames.
func (e *Encoder) stacked(k *Keys) {
	e.whisper(k)
	e.Stack = k.Int("projector.stack_factor", 1, maxStack)
}

// frames returns how many columns the frames of a token have, and how many it brings in front of the embedding of its
// position: also what setFlags writes.
func (e *Encoder) frames() (frames, columns int) {
	frames = around * kernel.Pad(e.Config.Sound.Bands)
	return frames, frames + 4
}

// setFlags writes which results of the first convolution there are, before the own one of a token, itself and behind it, and
// that the token is one of the sound.
func setFlags(dst []float32, before, behind bool) {
	dst[1], dst[3] = 1, 1
	if before {
		dst[0] = 1
	}
	if behind {
		dst[2] = 1
	}
}

// heard is the encoder up to its last norm.
func (e *Encoder) heard(b *Builder) {
	frames, columns := e.frames()
	b.Convolved(e.Config.Sound.Bands)
	b.BringMask(frames + 3)
	b.Brought(columns)
	b.BegunRows()
	e.layers(b, nil)
}

// stack is rows of several frames side by side, behind a norm. Behind the last frame there are zeros.
func (e *Encoder) stack(b *Builder, norm string) Strand {
	b.Normalise(norm)
	b.Mask()
	return b.Beside(e.Stack)
}

// windows returns the inputs of a sound.
func (e *Encoder) windows(samples []float32) (parts []Part) {
	tokens := e.tables[soundPositions].rows
	n := max((len(samples)-1)/(2*tokens*prepare.MelHop)+1, 1)
	mel := prepare.NewMel(samples, e.Config.Sound.Bands, 2*n*tokens, false)
	for w := range n {
		parts = append(parts, Part{Input: e.window(mel, 2*w*tokens)})
	}
	return parts
}

// window returns the input of the frames from number `from` on. Around them there are zeros.
func (e *Encoder) window(mel *prepare.Mel, from int) *Input {
	t := e.tables[soundPositions]
	rows := (t.rows + e.Stack - 1) / e.Stack
	frames, columns := e.frames()
	bands := e.Config.Sound.Bands
	return &Input{
		Tokens: rows * e.Stack, Seen: t.rows, Columns: columns + t.columns, Made: rows,
		Row: func(dst []float32, i int) {
			clear(dst)
			if i >= t.rows {
				return
			}
			for j := range around {
				if at := 2*i - around/2 + j; at >= 0 && at < 2*t.rows {
					mel.Frame(dst[j*kernel.Pad(bands):][:bands], from+at)
				}
			}
			setFlags(dst[frames:], i > 0, true)
			copy(dst[columns:], t.row(i))
		},
	}
}

// said returns parts with texts around them.
func said(before string, parts []Part, after string) []Part {
	all := append([]Part{{Text: before}}, parts...)
	if after != "" {
		all = append(all, Part{Text: after})
	}
	return all
}
