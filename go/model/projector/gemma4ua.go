package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// gemma4ua has no layers: a row is made of 40 ms of sound, normalised (Gemma 4 12B, 2026).
var gemma4ua = Kind{
	Name:   "gemma4ua",
	sense:  Hearing,
	config: func(e *Encoder, k *Keys) { k.Config.NEmbd = samplesOfRow },
	build: func(e *Encoder, b *Builder) {
		b.BroughtAlone()
		b.BegunRows()
		b.Beside(1).Norm(kernel.RMS, "").Product("mm.a.input_projection").Out()
	},
	Ask: gemma4Ask,
	hear: func(e *Encoder, samples []float32) []Part {
		var parts []Part
		for from := 0; from < len(samples); from += samplesOfInput {
			parts = append(parts, Part{Input: raw(samples[from:min(from+samplesOfInput, len(samples))])})
		}
		return said("<|audio>", parts, "<audio|>")
	},
}

// gemma4Ask is that of the model card.
var gemma4Ask = Ask{Text: "Transcribe the following speech segment in its original language.\n\nFollow these specific instructions for " +
	"formatting the answer:\n* Only output the transcription, with no newlines.\n* When transcribing numbers, write the digits, i.e. " +
	"write 1.7 and not one point seven, and write 3 instead of three."}

// samplesOfRow is 40 ms of sound, and samplesOfInput 30 s.
const (
	samplesOfRow   = 640
	samplesOfInput = 750 * samplesOfRow
)

// raw returns the input of samples. Behind them it is silent.
func raw(samples []float32) *Input {
	n := (len(samples) + samplesOfRow - 1) / samplesOfRow
	return &Input{
		Tokens: n, Columns: samplesOfRow, Made: n,
		Row: func(dst []float32, i int) { clear(dst[copy(dst, samples[i*samplesOfRow:]):]) },
	}
}
