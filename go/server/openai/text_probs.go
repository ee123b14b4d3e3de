package openai

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/generate"

	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
)

// textProbs are log-probabilities in the format of text completions: OpenAI's parallel
// arrays, and llama-server's content, which has generated tokens only.
type textProbs struct {
	answer.Probs
	prompt int // tokens of the prompt, which are first
	offset int // where the text of the tokens begins, in characters
}

func (p textProbs) MarshalJSONTo(out *jsontext.Encoder) error {
	if err := out.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	offset, content := p.offset, p.Probs
	content.Tokens = p.Tokens[p.prompt:]
	// known is f, and null for the first token of a prompt and for those of media.
	known := func(f func(generate.Token) any) func(generate.Token) any {
		first := p.prompt > 0
		return func(t generate.Token) any {
			if first || t.ID < 0 {
				first = false
				return nil
			}
			return f(t)
		}
	}
	for _, part := range []struct {
		name  string
		write func() error
	}{
		{"content", func() error { return content.MarshalJSONTo(out) }},
		{"tokens", func() error {
			return answer.WriteArray(out, p.Tokens,
				func(t generate.Token) any { return answer.TokenProbOf(p.M, sample.Logprob{ID: t.ID}).Token })
		}},
		{"token_logprobs", func() error {
			return answer.WriteArray(out, p.Tokens,
				known(func(t generate.Token) any { return answer.TokenProbOf(p.M, t.Logprob).Logprob }))
		}},
		{"top_logprobs", func() error {
			return answer.WriteArray(out, p.Tokens, known(func(t generate.Token) any { return topProbs(p.M, t) }))
		}},
		{"text_offset", func() error {
			return answer.WriteArray(out, p.Tokens, func(t generate.Token) any {
				at := max(offset, 0)
				offset += runesOf(p.M, t.ID)
				return at
			})
		}},
	} {
		if err := out.WriteToken(jsontext.String(part.name)); err != nil {
			return err
		}
		if err := part.write(); err != nil {
			return err
		}
	}
	return out.WriteToken(jsontext.EndObject)
}

// textSchema is the JSON type of textProbs, for the OpenAPI document.
type textSchema struct {
	Content       []answer.TokenProb    `json:"content"`
	Tokens        []string              `json:"tokens"`
	TokenLogprobs []*float64            `json:"token_logprobs"`
	TopLogprobs   []*map[string]float64 `json:"top_logprobs"`
	TextOffset    []int                 `json:"text_offset"`
}

func (textProbs) Schema() field.Schema { return field.SchemaOf(textSchema{}) }

// topProbs returns the token and the most likely ones by text. Partial characters may have the same
// text: the most likely of them is kept.
func topProbs(m *ask.Model, t generate.Token) map[string]float64 {
	out := map[string]float64{}
	for _, one := range append(t.Top[:len(t.Top):len(t.Top)], t.Logprob) {
		t := answer.TokenProbOf(m, one)
		if v, twice := out[t.Token]; !twice || t.Logprob > v {
			out[t.Token] = t.Logprob
		}
	}
	return out
}

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
func promptOffset(m *ask.Model, tokens []generate.Token, echo string) int {
	n := 0
	for _, t := range tokens {
		n += runesOf(m, t.ID)
	}
	return min(utf8.RuneCountInString(echo)-n, 0)
}
