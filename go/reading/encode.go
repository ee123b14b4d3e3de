// Package reading is what servers and programs share about texts that a model reads and does not continue, for vectors,
// scores and the probabilities of choices: their tokens, and how many are with the engine at a time.
package reading

import (
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/tokenizer"
)

// countedContexts is how many contexts of tokens are counted exactly, for those who shorten what is too long.
const countedContexts = 4

// Encode returns the tokens of a text for a context of so many. before is how many tokens precede it in the prompt. A text
// that is much too long is not encoded: the *engine.TooLongError says how many tokens it has at least.
func Encode(tok *tokenizer.Tokenizer, ctx int, text string, o tokenizer.Options, before int) ([]int32, error) {
	most := max(countedContexts*ctx-before, ctx, 1)
	ids, least := tok.EncodeUpTo(most, text, o)
	if least > most {
		return nil, &engine.TooLongError{Prompt: before + least, Ctx: ctx, Least: true}
	}
	return ids, nil
}
