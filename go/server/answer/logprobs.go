package answer

import (
	"math"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/generate"

	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
)

// leastLogprob stands for tokens of probability 0: JSON has no infinity.
const leastLogprob = -9999

// A TokenProb is a token with its log-probability, in the format of OpenAI's chat
// completions. The id is llama-server's addition.
type TokenProb struct {
	ID      int32       `json:"id"`
	Token   string      `json:"token"`
	Bytes   []int       `json:"bytes"`
	Logprob float64     `json:"logprob"`
	Top     []TokenProb `json:"top_logprobs,omitzero"`
}

func TokenProbOf(m *ask.Model, p sample.Logprob) TokenProb {
	spelled := m.Tokenizer.Piece(p.ID, true)
	t := TokenProb{ID: p.ID, Token: strings.ToValidUTF8(string(spelled), "\uFFFD"), Bytes: make([]int, len(spelled))}
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
	t := TokenProbOf(m, p)
	return tokenChance{ID: t.ID, Token: t.Token, Bytes: t.Bytes, Prob: math.Exp(float64(p.Value))}
}

// Probs are the log-probabilities of tokens, or, with post, their probabilities after the
// samplers. They are encoded one token at a time, because all of their JSON would be a
// hundred times as large as the tokens.
type Probs struct {
	M      *ask.Model
	Tokens []generate.Token
	post   bool
}

func (g *Generation) Probs(tokens []generate.Token) Probs {
	return Probs{g.Model, tokens, g.Opts.PostProbs}
}

// MarshalJSONTo writes an array of tokenProbs. Each has a list of the most likely
// tokens, which is empty if none were requested.
func (p Probs) MarshalJSONTo(out *jsontext.Encoder) error {
	return WriteArray(out, p.Tokens, func(t generate.Token) any {
		if p.post {
			one := tokenChanceOf(p.M, t.Logprob)
			one.Top = []tokenChance{}
			for _, top := range t.Top {
				one.Top = append(one.Top, tokenChanceOf(p.M, top))
			}
			return one
		}
		one := TokenProbOf(p.M, t.Logprob)
		one.Top = []TokenProb{}
		for _, top := range t.Top {
			one.Top = append(one.Top, TokenProbOf(p.M, top))
		}
		return one
	})
}

func (Probs) Schema() field.Schema {
	return field.Schema{"anyOf": []field.Schema{field.SchemaOf([]TokenProb{}), field.SchemaOf([]tokenChance{})}}
}

// WriteArray writes the array of f(token).
func WriteArray(out *jsontext.Encoder, tokens []generate.Token, f func(generate.Token) any) error {
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
