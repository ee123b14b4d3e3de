package main

import (
	"context"

	"github.com/quern-llm/quern"
)

// A reading is what quern_read is asked for: one of rank, tokens, text and the likelihoods of answers.
type reading struct {
	Query     *string  `json:"query"`
	Documents []string `json:"documents"`
	Text      *string  `json:"text"`
	Tokens    []int32  `json:"tokens"`
	Answers   []string `json:"answers"`
	request
}

type ranked struct {
	Index int     `json:"index"`
	Score float64 `json:"relevance_score"`
}

type likelihood struct {
	Index       int     `json:"index"`
	Answer      string  `json:"answer"`
	Probability float64 `json:"probability"`
	Logprob     float64 `json:"logprob"`
}

// readReading reads what a text is read for, and returns what computes it.
func readReading(text string) (func(context.Context, *quern.Model) (any, error), error) {
	var r reading
	if err := decode("the request", text, &r); err != nil {
		return nil, err
	}
	kinds := 0
	for _, is := range []bool{r.Query != nil || r.Documents != nil, r.Text != nil, r.Tokens != nil, r.Answers != nil} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return nil, invalid("want one of query with documents, text, tokens, and answers with messages or prompt")
	case r.Answers == nil && (r.Messages != nil || r.Prompt != nil):
		return nil, invalid("messages and prompt are given without answers")
	case r.Text != nil:
		return func(_ context.Context, m *quern.Model) (any, error) {
			ids, err := m.Tokenize(*r.Text)
			return map[string]any{"tokens": append([]int32{}, ids...)}, err
		}, nil
	case r.Tokens != nil:
		return func(_ context.Context, m *quern.Model) (any, error) {
			text, err := m.Detokenize(r.Tokens)
			return map[string]any{"text": text}, err
		}, nil
	case r.Answers != nil:
		asked, err := r.asks()
		return func(ctx context.Context, m *quern.Model) (any, error) {
			all, err := m.Decide(ctx, asked, r.Answers...)
			list := []likelihood{}
			for _, one := range all {
				list = append(list, likelihood(one))
			}
			return map[string]any{"answers": list}, err
		}, err
	case r.Query == nil || r.Documents == nil:
		return nil, invalid("query and documents are given without each other")
	}
	return func(ctx context.Context, m *quern.Model) (any, error) {
		all, err := m.Rerank(ctx, *r.Query, r.Documents...)
		list := []ranked{}
		for _, one := range all {
			list = append(list, ranked(one))
		}
		return map[string]any{"results": list}, err
	}, nil
}
