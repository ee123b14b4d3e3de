package openai_test

import (
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/server/internal/fake"
)

func TestCompletions(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello world", nil)
	for _, c := range []struct {
		body    string
		prompts []string // as the engine got them
		texts   []string
		finish  string
	}{
		{`{"prompt":"hi"}`, []string{"<s>hi"}, []string{"Hello world"}, "stop"},
		{`{"prompt":["hi","ho"]}`, []string{"<s>hi", "<s>ho"}, []string{"Hello world", "Hello world"}, "stop"},
		{`{"prompt":[1,107,108]}`, []string{"<s>hi"}, []string{"Hello world"}, "stop"},
		{`{"prompt":[1,1,107,108]}`, []string{"<s><s>hi"}, []string{"Hello world"}, "stop"}, // ids are the client's
		{`{"prompt":[[1,107],[1,108]]}`, []string{"<s>h", "<s>i"}, []string{"Hello world", "Hello world"}, "stop"},
		{`{"prompt":[107,"i"]}`, []string{"hi"}, []string{"Hello world"}, "stop"},
		{`{"prompt":["<s>h"]}`, []string{"<s>h"}, []string{"Hello world"}, "stop"},
		{`{"prompt":""}`, []string{"<s>"}, []string{"Hello world"}, "stop"},
		{`{"prompt":{"prompt_string":"hi"}}`, []string{"<s>hi"}, []string{"Hello world"}, "stop"},
		{`{"prompt":"hi","echo":true,"max_tokens":1}`, []string{"<s>hi"}, []string{"hiHello"}, "length"},
		{`{"prompt":"hi","max_tokens":0}`, []string{"<s>hi"}, []string{""}, "length"},
		{`{"prompt":"hi","stop":"wor"}`, []string{"<s>hi"}, []string{"Hello "}, "stop"},
		{`{"prompt":"hi","stop":["xyz","o w"]}`, []string{"<s>hi"}, []string{"Hell"}, "stop"},
		{`{"prompt":"hi","stop":["world!"]}`, []string{"<s>hi"}, []string{"Hello world"}, "stop"},
		{`{"prompt":"def f(","suffix":")"}`, []string{"<s><|fim_prefix|>def f(<|fim_suffix|>)<|fim_middle|>"},
			[]string{"Hello world"}, "stop"},
		{`{"prompt":"hi","n":2,"best_of":2}`, []string{"<s>hi", "<s>hi"}, []string{"Hello world", "Hello world"}, "stop"},
	} {
		s.Requests = nil
		a := fake.Post[textAnswer](s, "/v1/completions", c.body)
		var prompts, texts []string
		for _, r := range s.Requests {
			prompts = append(prompts, s.Tok.Detokenize(r.Prompt, true))
		}
		for _, choice := range a.Choices {
			texts = append(texts, choice.Text)
			if *choice.Finish != c.finish {
				t.Errorf("%s: finish reason %q, want %q", c.body, *choice.Finish, c.finish)
			}
		}
		if !slices.Equal(prompts, c.prompts) || !slices.Equal(texts, c.texts) || a.Object != "text_completion" {
			t.Errorf("%s: prompts %q, texts %q, want %q and %q", c.body, prompts, texts, c.prompts, c.texts)
		}
	}
}

func TestCompletionStream(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello world", nil)
	events := s.Events("/v1/completions", `{"prompt":["a","b"],"stream":true,"echo":true,"stream_options":{"include_usage":true}}`)
	texts, ends := [2]string{}, [2]int{}
	for _, e := range events[:len(events)-1] {
		a := fake.Parse[textAnswer](t, []byte(e))
		if a.Usage != nil && (a.Usage.PromptTokens != 4 || a.Usage.CompletionTokens != 16) {
			t.Errorf("usage %+v", a.Usage)
		}
		for _, c := range a.Choices {
			texts[c.Index] += c.Text
			if c.Finish != nil {
				ends[c.Index]++
			}
		}
	}
	if texts != [2]string{"aHello world", "bHello world"} || ends != [2]int{1, 1} || events[len(events)-1] != "[DONE]" {
		t.Errorf("got %q, %d ends, %q", texts, ends, events[len(events)-1])
	}
}

// textRead is a textAnswer as clients read its log-probabilities.
type textRead struct {
	Choices []struct {
		Text     string
		Logprobs *textProbs
	}
}

func TestCompletionLogprobs(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello world", nil)
	l := fake.Post[textRead](s, "/v1/completions", `{"prompt":"x","logprobs":2}`).Choices[0].Logprobs
	if !slices.Equal(l.Tokens, []string{"Hello", " ", "w", "o", "r", "l", "d"}) ||
		!slices.Equal(l.TextOffset, []int{0, 5, 6, 7, 8, 9, 10}) {
		t.Errorf("tokens %q at %d", l.Tokens, l.TextOffset)
	}
	if *l.TokenLogprobs[0] != -0.5 || len(*l.TopLogprobs[0]) != 2 || len(l.Content) != 7 {
		t.Errorf("got %+v", l)
	}
	if a := fake.Post[textRead](s, "/v1/completions", `{"prompt":"x","logprobs":0}`); a.Choices[0].Logprobs == nil ||
		(*a.Choices[0].Logprobs.TopLogprobs[0])["Hello"] != -0.5 {
		t.Errorf("got %+v", a.Choices[0].Logprobs)
	}
	if a := fake.Post[textRead](s, "/v1/completions", `{"prompt":"x"}`); a.Choices[0].Logprobs != nil {
		t.Errorf("got %+v", a.Choices[0].Logprobs)
	}
	if a := fake.Post[textRead](s, "/v1/completions",
		`{"prompt":"x","logprobs":1,"stop":"wo"}`); len(a.Choices[0].Logprobs.Tokens) != 2 {
		t.Errorf("log-probabilities of a stop word: %q", a.Choices[0].Logprobs.Tokens)
	}
}

// Offsets count on from one event to the next.
func TestStreamOfOffsets(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello w", nil)
	var offsets []int
	for _, e := range s.Events("/v1/completions", `{"prompt":"x","logprobs":0,"stream":true}`) {
		if e != "[DONE]" {
			if l := fake.Parse[textRead](t, []byte(e)).Choices[0].Logprobs; l != nil {
				offsets = append(offsets, l.TextOffset...)
			}
		}
	}
	if !slices.Equal(offsets, []int{0, 5, 6}) {
		t.Errorf("offsets %d", offsets)
	}
}
