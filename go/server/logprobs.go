package server

import (
	"math"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
)

// leastLogprob stands for tokens of probability 0: JSON has no infinity.
const leastLogprob = -9999

// A tokenProb is a token with its log-probability, in the format of OpenAI's chat
// completions. The id is llama-server's addition.
type tokenProb struct {
	ID      int32       `json:"id"`
	Token   string      `json:"token"`
	Bytes   []int       `json:"bytes"`
	Logprob float64     `json:"logprob"`
	Top     []tokenProb `json:"top_logprobs,omitzero"`
}

func tokenProbOf(m *ask.Model, p sample.Logprob) tokenProb {
	spelled := m.Tokenizer.Piece(p.ID, true)
	t := tokenProb{ID: p.ID, Token: strings.ToValidUTF8(string(spelled), "\uFFFD"), Bytes: make([]int, len(spelled))}
	for i, b := range spelled {
		t.Bytes[i] = int(b)
	}
	t.Logprob = leastLogprob
	if p.Value > leastLogprob {
		t.Logprob = float64(p.Value)
	}
	return t
}

// A tokenChance is a token with its probability after the samplers, in llama-server's
// format.
type tokenChance struct {
	ID    int32         `json:"id"`
	Token string        `json:"token"`
	Bytes []int         `json:"bytes"`
	Prob  float64       `json:"prob"`
	Top   []tokenChance `json:"top_probs,omitzero"`
}

func tokenChanceOf(m *ask.Model, p sample.Logprob) tokenChance {
	t := tokenProbOf(m, p)
	return tokenChance{ID: t.ID, Token: t.Token, Bytes: t.Bytes, Prob: math.Exp(float64(p.Value))}
}

// probs are the log-probabilities of tokens, or, with post, their probabilities after the
// samplers. They are encoded one token at a time, because all of their JSON would be a
// hundred times as large as the tokens.
type probs struct {
	m      *ask.Model
	tokens []engine.Token
	post   bool
}

func (g *generation) probs(tokens []engine.Token) probs {
	return probs{g.model, tokens, g.opts.PostProbs}
}

// MarshalJSONTo writes an array of tokenProbs. Each has a list of the most likely
// tokens, which is empty if none were requested.
func (p probs) MarshalJSONTo(out *jsontext.Encoder) error {
	return writeArray(out, p.tokens, func(t engine.Token) any {
		if p.post {
			one := tokenChanceOf(p.m, t.Logprob)
			one.Top = []tokenChance{}
			for _, top := range t.Top {
				one.Top = append(one.Top, tokenChanceOf(p.m, top))
			}
			return one
		}
		one := tokenProbOf(p.m, t.Logprob)
		one.Top = []tokenProb{}
		for _, top := range t.Top {
			one.Top = append(one.Top, tokenProbOf(p.m, top))
		}
		return one
	})
}

func (probs) Schema() field.Schema {
	return field.Schema{"anyOf": []field.Schema{schemaOf([]tokenProb{}), schemaOf([]tokenChance{})}}
}

// textProbs are log-probabilities in the format of text completions: OpenAI's parallel
// arrays, and llama-server's content, which has generated tokens only.
type textProbs struct {
	probs
	prompt int // tokens of the prompt, which are first
	offset int // where the text of the tokens begins, in characters
}

func (p textProbs) MarshalJSONTo(out *jsontext.Encoder) error {
	if err := out.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	offset, content := p.offset, p.probs
	content.tokens = p.tokens[p.prompt:]
	// known is f, and null for the first token of a prompt.
	known := func(f func(engine.Token) any) func(engine.Token) any {
		first := p.prompt > 0
		return func(t engine.Token) any {
			if first {
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
			return writeArray(out, p.tokens, func(t engine.Token) any { return tokenProbOf(p.m, sample.Logprob{ID: t.ID}).Token })
		}},
		{"token_logprobs", func() error {
			return writeArray(out, p.tokens, known(func(t engine.Token) any { return tokenProbOf(p.m, t.Logprob).Logprob }))
		}},
		{"top_logprobs", func() error {
			return writeArray(out, p.tokens, known(func(t engine.Token) any { return topProbs(p.m, t) }))
		}},
		{"text_offset", func() error {
			return writeArray(out, p.tokens, func(t engine.Token) any {
				at := max(offset, 0)
				offset += runesOf(p.m, t.ID)
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
	Content       []tokenProb           `json:"content"`
	Tokens        []string              `json:"tokens"`
	TokenLogprobs []*float64            `json:"token_logprobs"`
	TopLogprobs   []*map[string]float64 `json:"top_logprobs"`
	TextOffset    []int                 `json:"text_offset"`
}

func (textProbs) Schema() field.Schema { return schemaOf(textSchema{}) }

// topProbs returns the token and the most likely ones by text. Partial characters may have the same
// text: the most likely of them is kept.
func topProbs(m *ask.Model, t engine.Token) map[string]float64 {
	out := map[string]float64{}
	for _, one := range append(t.Top[:len(t.Top):len(t.Top)], t.Logprob) {
		t := tokenProbOf(m, one)
		if v, twice := out[t.Token]; !twice || t.Logprob > v {
			out[t.Token] = t.Logprob
		}
	}
	return out
}

// writeArray writes the array of f(token).
func writeArray(out *jsontext.Encoder, tokens []engine.Token, f func(engine.Token) any) error {
	if err := out.WriteToken(jsontext.BeginArray); err != nil {
		return err
	}
	for _, t := range tokens {
		if err := json.MarshalEncode(out, f(t)); err != nil {
			return err
		}
	}
	return out.WriteToken(jsontext.EndArray)
}
