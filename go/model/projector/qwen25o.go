package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// qwen25o is the encoder of sounds of Qwen2.5-Omni (Xu et al. 2025): Whisper's, for parts of two seconds, whose tokens see each
// other alone, and of which two tokens are averaged.
var qwen25o = Kind{
	Name:  "qwen2.5o",
	sense: Hearing,
	config: func(e *Encoder, k *Keys) {
		e.whisper(k)
		if t := e.tables[soundPositions]; t.rows < partFrames/2 {
			k.Fail("embedding_length", "%d embeddings of positions, want one for each token of two seconds", t.rows)
		}
		for i := range k.Config.Layers {
			k.Config.Layers[i].Window = partFrames / 2
		}
	},
	build: qwen2a.build,
	hear: func(e *Encoder, samples []float32) []Part {
		frames := max((len(samples)+prepare.MelHop-1)/prepare.MelHop, 3)
		in := e.parts(prepare.NewMel(samples, e.Config.Sound.Bands, frames, false), frames)
		return said("<|audio_bos|>", []Part{{Input: in}}, "<|audio_eos|>")
	},
}

// partFrames is twice n_window of Qwen2_5OmniAudioEncoderConfig.
const partFrames = 200

// parts returns the input of frames, part by part. Around each there are zeros.
func (e *Encoder) parts(mel *prepare.Mel, frames int) *Input {
	t, bands := e.tables[soundPositions], e.Config.Sound.Bands
	flags, columns := e.frames()
	in := &Input{Columns: columns + t.columns}
	for from := 0; from < frames; from += partFrames {
		n := (min(partFrames, frames-from) + 1) / 2
		in.Windows = append(in.Windows, n)
		in.Tokens += n
	}
	in.Made = in.Tokens / 2
	in.Row = func(dst []float32, i int) {
		clear(dst)
		first, i := i/(partFrames/2)*partFrames, i%(partFrames/2)
		n := min(partFrames, frames-first)
		for j := range around {
			if at := 2*i - around/2 + j; at >= 0 && at < n {
				mel.Frame(dst[j*kernel.Pad(bands):][:bands], first+at)
			}
		}
		setFlags(dst[flags:], i > 0, 2*i+1 < n)
		copy(dst[columns:], t.row(i))
	}
	return in
}

// qwen25oSight is that of pictures, which has other fences.
var qwen25oSight = func() Kind {
	k := qwen25vl
	k.Name = "qwen2.5o"
	fenced := func(parts []Part) []Part {
		parts[0].Text, parts[len(parts)-1].Text = "<|vision_bos|>", "<|vision_eos|>"
		return parts
	}
	k.see = func(e *Encoder, p *picture.RGB) []Part { return fenced(qwen25vl.see(e, p)) }
	k.film = func(e *Encoder, steps []Part, f Film) []Part { return fenced(qwen25vl.film(e, steps, f)) }
	return k
}()
