package server

import (
	"strings"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/sample"
)

// leastLogprob stands for tokens that cannot come: JSON has no infinity.
const leastLogprob = -9999

// A tokenProb is a token with its log-probability, in the form of OpenAI's
// chats. The id is llama-server's addition.
type tokenProb struct {
	ID      int32       `json:"id"`
	Token   string      `json:"token"`
	Bytes   []int       `json:"bytes"`
	Logprob float64     `json:"logprob"`
	Top     []tokenProb `json:"top_logprobs,omitzero"`
}

func (m *Model) tokenProb(p sample.Logprob) tokenProb {
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

// probs are the log-probabilities of tokens. Each has a list of the likeliest,
// an empty one where none were asked for.
func (m *Model) probs(tokens []engine.Token) []tokenProb {
	out := []tokenProb{}
	for _, t := range tokens {
		p := m.tokenProb(t.Logprob)
		p.Top = []tokenProb{}
		for _, top := range t.Top {
			p.Top = append(p.Top, m.tokenProb(top))
		}
		out = append(out, p)
	}
	return out
}

// textLogprobs is the form of completions: OpenAI's parallel arrays, and the
// content that llama-server sends.
type textLogprobs struct {
	Content       []tokenProb          `json:"content"`
	Tokens        []string             `json:"tokens"`
	TokenLogprobs []float64            `json:"token_logprobs"`
	TopLogprobs   []map[string]float64 `json:"top_logprobs"`
	TextOffset    []int                `json:"text_offset"`
}

// textLogprobs returns the log-probabilities of tokens whose text begins at
// offset, in characters.
func (m *Model) textLogprobs(tokens []engine.Token, offset int) *textLogprobs {
	l := &textLogprobs{
		Content: m.probs(tokens), Tokens: []string{}, TokenLogprobs: []float64{},
		TopLogprobs: []map[string]float64{}, TextOffset: []int{},
	}
	for _, p := range l.Content {
		top := map[string]float64{}
		for _, t := range p.Top {
			// Halves of characters may be spelled alike; the likeliest comes first.
			if v, twice := top[t.Token]; !twice || t.Logprob > v {
				top[t.Token] = t.Logprob
			}
		}
		l.Tokens = append(l.Tokens, p.Token)
		l.TokenLogprobs = append(l.TokenLogprobs, p.Logprob)
		l.TopLogprobs = append(l.TopLogprobs, top)
		l.TextOffset = append(l.TextOffset, offset)
		offset += utf8.RuneCountInString(p.Token)
	}
	return l
}

// maxProbs is how many alternatives a token can come with.
const maxProbs = engine.MaxTopLogprobs

// A probCount is how many of the likeliest tokens come with each. -1 is none at
// all, which zero means too where it is off.
type probCount struct {
	p   *int
	off bool
}

func (n probCount) take(r *reader) error {
	err := integer(n.p, 0, maxProbs).take(r)
	if *n.p == 0 && n.off {
		*n.p = -1
	}
	return err
}

func (n probCount) value() any     { return max(*n.p, 0) }
func (n probCount) schema() schema { return integer(n.p, 0, maxProbs).schema() }
