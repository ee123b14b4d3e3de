package form

import (
	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/tokenizer"
)

// Budget returns a bound of so many tokens on the reasoning of replies to a prompt, -1 for none but the one that
// Budget.Now sets; nil where the replies have no reasoning. A reply whose reasoning is ended says message there.
func Budget(tok *tokenizer.Tokenizer, prompt *chat.Prompt, tokens int, message string) *constrain.Budget {
	t, ok := prompt.Thinking()
	if !ok {
		return nil
	}
	return &constrain.Budget{
		Stretch: constrain.Stretch{Open: t.Open, Shut: t.Shut, Begun: t.Begun, Again: t.Again},
		Tokens:  tokens,
		Closing: tok.Encode(message+t.Closing,
			tokenizer.Options{NoSpecial: true, ParseSpecial: true, Literal: [][2]int{{0, len(message)}}}),
		N: tok.Len(),
		Spell: func(id int32, yield func(byte)) {
			for _, c := range tok.Piece(id, true) {
				yield(c)
			}
		},
	}
}
