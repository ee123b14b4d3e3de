package server

import (
	"unicode/utf8"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/arch"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/ask"
)

// promptProbs is the engine.Reader of the log-probabilities of a prompt's tokens: a row of logits is used when it is
// computed, and of each only the token's own value and the likeliest are kept.
type promptProbs struct {
	tokens []engine.Token // the prompt's; nothing tells the probability of the first
	top    int            // alternatives per token
}

func newPromptProbs(prompt []int32, top int) *promptProbs {
	p := &promptProbs{make([]engine.Token, len(prompt)), top}
	for i, id := range prompt {
		p.tokens[i].ID = id
	}
	return p
}

// reader returns the engine's Reader; nil: there is nothing to read.
func (p *promptProbs) reader() engine.Reader {
	if len(p.tokens) < 2 {
		return nil
	}
	return p
}

// Reads implements engine.Reader: a row says what comes after its token.
func (p *promptProbs) Reads() (output string, from, to int) { return arch.Logits, 0, len(p.tokens) - 1 }

// Read implements engine.Reader.
func (p *promptProbs) Read(i int, row []float32) {
	t := &p.tokens[i+1]
	t.Logprob, t.Top = sample.Logprobs(row, t.ID, p.top)
}

// End implements engine.Reader.
func (p *promptProbs) End(func(output string, given []float32) []float32) {}

// runesOf returns how many characters of the text begin in a token.
func runesOf(m *ask.Model, id int32) (n int) {
	for _, b := range m.Tokenizer.Piece(id, true) {
		if utf8.RuneStart(b) {
			n++
		}
	}
	return n
}

// promptOffset returns where the text of a prompt's tokens begins, in characters of the text that is echoed: before it,
// by what they have and it has not, such as BOS and the space that a vocabulary prepends.
func promptOffset(m *ask.Model, tokens []engine.Token, echo string) int {
	n := 0
	for _, t := range tokens {
		n += runesOf(m, t.ID)
	}
	return min(utf8.RuneCountInString(echo)-n, 0)
}
