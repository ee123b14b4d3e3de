package server

import (
	"unicode/utf8"

	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
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

// A tokenizeQuery is a request to /tokenize.
type tokenizeQuery struct {
	content                              string
	addSpecial, parseSpecial, withPieces bool
}

func newTokenizeQuery(*Model) *tokenizeQuery { return &tokenizeQuery{parseSpecial: true} }

func (q *tokenizeQuery) Fields() []field.Field {
	return []field.Field{
		field.Required("content", field.Text(&q.content), "The text."),
		field.Setting("add_special", field.Boolean(&q.addSpecial), "Begin with BOS where the model wants it."),
		field.Setting("parse_special", field.Boolean(&q.parseSpecial), "Read the texts of control tokens as such."),
		field.Setting("with_pieces", field.Boolean(&q.withPieces), "Send the text of each token too."),
	}
}

func (s *Server) tokenize(req *Request) error {
	m := req.Model
	q := newTokenizeQuery(m)
	if err := req.Read(q); err != nil {
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
	req.Send(out)
	return nil
}

// A detokenizeQuery is a request to /detokenize.
type detokenizeQuery struct{ tokens tokenList }

func newDetokenizeQuery(*Model) *detokenizeQuery { return &detokenizeQuery{} }

func (q *detokenizeQuery) Fields() []field.Field {
	return []field.Field{field.Required("tokens", &q.tokens, "Token ids.")}
}

func (s *Server) detokenize(req *Request) error {
	m := req.Model
	q := newDetokenizeQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	for i, id := range q.tokens {
		if int(id) >= m.Tokenizer.Len() {
			return reply.Invalid("tokens", "element %d: token %d is not in the vocabulary, want 0 to %d", i, id, m.Tokenizer.Len()-1)
		}
	}
	req.Send(content{m.spell(q.tokens)})
	return nil
}

// A templateQuery is a request to /apply-template.
type templateQuery struct{ conversation }

func newTemplateQuery(m *Model) *templateQuery {
	return filled(m, &templateQuery{newConversation()})
}

func (s *Server) applyTemplate(req *Request) error {
	m := req.Model
	q := newTemplateQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	prompt, err := q.render(m)
	if err != nil {
		return err
	}
	req.Send(rendered{prompt.Text})
	return nil
}

// countTokens returns the number of tokens of a chat's prompt.
func (s *Server) countTokens(req *Request) error {
	m := req.Model
	q := newChatQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	src, err := q.source(m)
	if err != nil {
		return err
	}
	req.Send(tokenCount{"response.input_tokens", len(src.prompts[0])})
	return nil
}
