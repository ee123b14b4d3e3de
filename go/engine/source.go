package engine

import (
	"errors"

	"github.com/quern-llm/quern/go/generate"
)

// What models with an encoder and a decoder need: their prompt is read by the encoder, whole, and the decoder answers
// it. To the engine both are one text, which begins with the prompt and goes on with the tokens that answers begin with.

// ErrAnswers reports a request that a model with an encoder and a decoder does not support.
var ErrAnswers = errors.New("answers a text that its encoder reads: it generates, and neither scores texts nor makes vectors of them")

// begun returns p with the prompt extended by the tokens that the answer begins with, and with an answer that is no
// longer than the model has positions for. It refuses a prompt that is.
func (e *Engine) begun(p generate.Params) (generate.Params, error) {
	c := e.model.Config
	if len(c.Encoder) == 0 || len(p.Prompt) == 0 {
		return p, nil
	}
	if c.NSide > 0 {
		if len(p.Prompt) > c.NSide {
			return p, &TooLongError{Prompt: len(p.Prompt), Ctx: c.NSide}
		}
		if most := c.NSide - len(c.Start); p.MaxTokens < 0 || p.MaxTokens > most {
			p.MaxTokens = most
		}
	}
	p.Prompt = append(p.Prompt[:len(p.Prompt):len(p.Prompt)], c.Start...)
	return p, nil
}

// source returns how many tokens of such a text are the encoder's.
func (e *Engine) source(begun []int32) int {
	if len(e.model.Config.Encoder) == 0 {
		return 0
	}
	return len(begun) - len(e.model.Config.Start)
}
