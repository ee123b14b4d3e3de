package llamaserver

import (
	"strings"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
	"github.com/quern-llm/quern/go/tokenizer"
)

type (
	tokens[T any] struct {
		Tokens []T      `json:"tokens"` // ids or pieces
		Texts  []string `json:"token_strs,omitzero"`
		Count  int      `json:"count"`
		Max    int      `json:"max_model_len"`
	}
	content struct {
		Content string `json:"content"`
		Prompt  string `json:"prompt"` // the same, as vLLM has it
	}
	rendered struct {
		Prompt string `json:"prompt"`
	}
	tokenPiece struct {
		ID    int32 `json:"id"`
		Piece any   `json:"piece"` // text, or bytes where they are not UTF-8
	}
)

// A tokenizeQuery is a request to /tokenize.
type tokenizeQuery struct {
	content, prompt                     ask.Prompt
	hasContent, hasPrompt               bool
	addSpecial                          ask.Option
	parseSpecial, withPieces, withTexts bool
}

func newTokenizeQuery(*ask.Model) *tokenizeQuery { return &tokenizeQuery{parseSpecial: true} }

func (q *tokenizeQuery) Fields() []field.Field {
	return []field.Field{
		field.Input("content", ask.OnePrompt{P: &q.content, Given: &q.hasContent}, "The text, or texts and token ids, or text "+
			"with media, as in a prompt of /completion. The tokens of a medium are -1."),
		field.Input("prompt", ask.OnePrompt{P: &q.prompt, Given: &q.hasPrompt},
			"The same, as vLLM has it: add_special is true by default then."),
		field.Setting("add_special add_special_tokens", &q.addSpecial, "Begin with BOS where the model wants it."),
		field.Setting("parse_special", field.Boolean(&q.parseSpecial), "Read the texts of control tokens as such."),
		field.Setting("with_pieces", field.Boolean(&q.withPieces), "Send the text of each token too."),
		field.Setting("return_token_strs", field.Boolean(&q.withTexts),
			"Send the texts of the tokens as a list of their own, token_strs."),
	}
}

// encode returns the tokens.
func (q *tokenizeQuery) encode(req *answer.Request) ([]int32, error) {
	o := tokenizer.Options{NoSpecial: !q.addSpecial.On, ParseSpecial: q.parseSpecial}
	switch {
	case q.hasContent && q.hasPrompt:
		return nil, reply.Invalid("prompt", "given together with content, want one of them")
	case q.hasContent:
		return q.content.EncodeAll(req.Context(), req.Model, "content", o)
	case q.hasPrompt:
		o.NoSpecial = o.NoSpecial && q.addSpecial.Given
		return q.prompt.EncodeAll(req.Context(), req.Model, "prompt", o)
	}
	return nil, reply.Invalid("content", "missing, want a string")
}

func (s *API) tokenize(req *answer.Request) error {
	m := req.Model
	q := newTokenizeQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	if q.withPieces || q.withTexts {
		if err := req.Admit(len(req.Body) * (answer.PromptBytes + answer.PieceBytes) / answer.PromptBytes); err != nil {
			return err
		}
	}
	ids, err := q.encode(req)
	if err != nil {
		return err
	}
	if (q.withPieces || q.withTexts) && len(ids) > len(req.Body) { // those of media
		if err := req.Admit(len(ids) * (answer.PromptBytes + answer.PieceBytes) / answer.PromptBytes); err != nil {
			return err
		}
	}
	var texts []string
	if q.withTexts {
		texts = make([]string, len(ids))
		for i, id := range ids {
			texts[i] = strings.ToValidUTF8(string(m.Tokenizer.Piece(id, true)), "\uFFFD")
		}
	}
	if !q.withPieces {
		req.Send(tokens[int32]{ids, texts, len(ids), m.Ctx})
		return nil
	}
	out := tokens[tokenPiece]{make([]tokenPiece, 0, len(ids)), texts, len(ids), m.Ctx}
	for _, id := range ids {
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
type detokenizeQuery struct{ tokens ask.TokenList }

func newDetokenizeQuery(*ask.Model) *detokenizeQuery { return &detokenizeQuery{} }

func (q *detokenizeQuery) Fields() []field.Field {
	return []field.Field{field.Required("tokens", &q.tokens, "Token ids.")}
}

func (s *API) detokenize(req *answer.Request) error {
	m := req.Model
	q := newDetokenizeQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	for i, id := range q.tokens {
		if int(id) >= m.Tokenizer.Len() {
			return reply.Invalid("tokens", "element %d: token %d is not in the vocabulary, want 0 to %d", i, id,
				m.Tokenizer.Len()-1)
		}
	}
	size := 0
	for _, id := range q.tokens {
		size += len(m.Tokenizer.Piece(id, true))
	}
	if n := size * answer.SpelledBytes / answer.PromptBytes; n > len(req.Body) {
		if err := req.Admit(n); err != nil {
			return err
		}
	}
	text := m.Spell(q.tokens)
	req.Send(content{text, text})
	return nil
}

// A templateQuery is a request to /apply-template.
type templateQuery struct{ ask.Conversation }

func NewTemplateQuery(m *ask.Model) *templateQuery {
	return ask.Filled(m, &templateQuery{ask.NewConversation()})
}

func (s *API) applyTemplate(req *answer.Request) error {
	m := req.Model
	q := NewTemplateQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	prompt, err := q.Render(req.Context(), m)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, piece := range prompt.Pieces() {
		if text.WriteString(piece.Text); piece.Medium != nil {
			text.WriteString(ask.MediaMarker)
		}
	}
	req.Send(rendered{text.String()})
	return nil
}
