package server

import (
	"net/http"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/tokenizer"
)

type (
	tokens struct {
		Tokens []any `json:"tokens"`
	} // ids or pieces
	content struct {
		Content string `json:"content"`
	}
	rendered struct {
		Prompt string `json:"prompt"`
	}
	tokenCount struct {
		Object string `json:"object"`
		Tokens int    `json:"input_tokens"`
	}
	tokenPiece struct {
		ID    int32 `json:"id"`
		Piece any   `json:"piece"` // text, or bytes where they are not UTF-8
	}
)

func (s *Server) tokenize(c *gin.Context, m *Model) error {
	q, err := s.query(c, m, onTokenize)
	if err != nil {
		return err
	}
	out := tokens{[]any{}}
	for _, id := range m.Tokenizer.Encode(q.content, tokenizer.Options{NoSpecial: !q.addSpecial, ParseSpecial: q.parseSpecial}) {
		if !q.withPieces {
			out.Tokens = append(out.Tokens, id)
			continue
		}
		piece := m.Tokenizer.Piece(id, true)
		one := tokenPiece{ID: id, Piece: string(piece)}
		if !utf8.Valid(piece) {
			bytes := make([]int, len(piece))
			for i, b := range piece {
				bytes[i] = int(b)
			}
			one.Piece = bytes
		}
		out.Tokens = append(out.Tokens, one)
	}
	reply(c, http.StatusOK, out)
	return nil
}

func (s *Server) detokenize(c *gin.Context, m *Model) error {
	q, err := s.query(c, m, onDetokenize)
	if err != nil {
		return err
	}
	for i, id := range q.tokens {
		if int(id) >= m.Tokenizer.Len() {
			return invalid("tokens", "element %d: token %d is not in the vocabulary, want 0 to %d", i, id, m.Tokenizer.Len()-1)
		}
	}
	reply(c, http.StatusOK, content{m.Tokenizer.Detokenize(q.tokens, true)})
	return nil
}

func (s *Server) applyTemplate(c *gin.Context, m *Model) error {
	q, err := s.query(c, m, onTemplate)
	if err != nil {
		return err
	}
	prompt, err := q.render(m)
	if err != nil {
		return err
	}
	reply(c, http.StatusOK, rendered{prompt.Text})
	return nil
}

// countTokens says how long the prompt of a chat is.
func (s *Server) countTokens(c *gin.Context, m *Model) error {
	q, err := s.query(c, m, onChat)
	if err != nil {
		return err
	}
	src, err := chatSource(m, q)
	if err != nil {
		return err
	}
	reply(c, http.StatusOK, tokenCount{"response.input_tokens", len(src.prompts[0])})
	return nil
}
