package engine

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/model"
)

// What models with an encoder and a decoder need: their prompt is read by the encoder, whole, and the decoder answers
// it. To the engine both are one text, which begins with the prompt and goes on with the tokens that answers begin
// with.

// ErrAnswers reports a request that a model with an encoder and a decoder does not support.
var ErrAnswers = errors.New("answers a text that its encoder reads: it generates, and neither scores texts nor makes vectors of them")

// ErrHears reports a request without sound for a model that transcribes.
var ErrHears = errors.New(`transcribes sound, and has no answer to a text; "quern transcribe" and /v1/audio/transcriptions give it some`)

// answersOnly is the error of a request that a model with an encoder and a decoder does not support.
func answersOnly(c *model.Config) error {
	if c.Sound.Bands > 0 {
		return fmt.Errorf("%s %w", c.Arch, ErrHears)
	}
	return fmt.Errorf("%s %w", c.Arch, ErrAnswers)
}

// begun returns p with the prompt extended by the tokens that the answer begins with, and with an answer that is no
// longer than the model has positions for; and how many tokens of the prompt are the encoder's. It refuses a prompt
// that is longer. A model of speech hears frames; the prompt is then what its answer begins with.
func (e *Engine) begun(p generate.Params, frames [][]float32) (_ generate.Params, source int, err error) {
	c := e.model.Config
	hears := c.Sound.Bands > 0
	switch {
	case !hears && len(frames) > 0:
		return p, 0, fmt.Errorf("%s reads text, and hears nothing", c.Arch)
	case hears && len(frames) == 0:
		return p, 0, fmt.Errorf("%s %w", c.Arch, ErrHears)
	case len(c.Encoder) == 0 || len(p.Prompt) == 0:
		return p, 0, nil
	}
	start := c.Start
	if hears {
		for i, f := range frames {
			if len(f) != c.Sound.Columns() {
				return p, 0, fmt.Errorf("frames of token %d have %d columns, want %d", i, len(f), c.Sound.Columns())
			}
		}
		start, p.Prompt = p.Prompt, make([]int32, len(frames), len(frames)+len(p.Prompt))
	}
	source = len(p.Prompt)
	if c.NSide > 0 {
		if source > c.NSide {
			return p, 0, &TooLongError{Prompt: source, Ctx: c.NSide}
		}
		most := cmp.Or(c.NAnswer, c.NSide) - len(start)
		if most < 0 {
			return p, 0, &TooLongError{Prompt: len(start), Ctx: cmp.Or(c.NAnswer, c.NSide)}
		}
		if p.MaxTokens < 0 || p.MaxTokens > most {
			p.MaxTokens = most
		}
	}
	p.Prompt = append(p.Prompt[:source:source], start...)
	return p, source, nil
}
