package answer

import (
	"context"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/tokenizer"
)

// What tests compare with.
const (
	AnswersPurpose = answersPurpose
	BodiesPart     = bodiesPart
	BodiesPurpose  = bodiesPurpose
	FirstBytes     = firstBytes
	MaxReadTokens  = maxReadTokens
	PromptsPart    = promptsPart
	PromptsPurpose = promptsPurpose
)

// Break leaves the sequence nothing to make text of.
func (s *Sequence) Break() { s.write.text = nil }

// Len returns how many tokens are held.
func (s *TokenStore) Len() int { return s.tokens }

// Encode returns the tokens of texts.
func (p Inputs) Encode(ctx context.Context, m *ask.Model, name string, held *TokenStore) ([]engine.Text, error) {
	return p.encode(ctx, m, name, 0, held)
}

// A Writer writes tokens as text.
type Writer struct{ w writer }

func NewWriter(text *tokenizer.Stream, stops *tokenizer.Stops) *Writer {
	return &Writer{writer{text: text, stops: stops}}
}

func (w *Writer) Write(t generate.Token) (Piece, string) { return w.w.write(t) }
func (w *Writer) End(word string) (Piece, string)        { return w.w.end(word) }
