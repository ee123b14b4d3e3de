package openai

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/generate"

	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
)

// vllmProbs are the log-probabilities of a prompt's tokens as vLLM sends them: null for the first and for those of media, and for each other
// itself and the likeliest, by id. They are encoded one token at a time.
type vllmProbs struct {
	m      *ask.Model
	tokens []generate.Token
	ranks  []int // of the tokens
	top    int
}

type vllmProb struct {
	Logprob float64 `json:"logprob"`
	Rank    int     `json:"rank"`
	Text    string  `json:"decoded_token"`
}

func (p vllmProbs) MarshalJSONTo(out *jsontext.Encoder) error {
	if err := out.WriteToken(jsontext.BeginArray); err != nil {
		return err
	}
	for i, t := range p.tokens {
		if i == 0 || t.ID < 0 {
			if err := out.WriteToken(jsontext.Null); err != nil {
				return err
			}
			continue
		}
		all := map[string]vllmProb{}
		add := func(one sample.Logprob, rank int) {
			said := answer.TokenProbOf(p.m, one)
			all[strconv.Itoa(int(one.ID))] = vllmProb{said.Logprob, rank, said.Token}
		}
		for k, one := range t.Top[:min(p.top, len(t.Top))] {
			add(one, k+1)
		}
		add(t.Logprob, p.ranks[i])
		if err := json.MarshalEncode(out, all); err != nil {
			return err
		}
	}
	return out.WriteToken(jsontext.EndArray)
}

func (vllmProbs) Schema() field.Schema { return field.SchemaOf([]*map[string]vllmProb{}) }
