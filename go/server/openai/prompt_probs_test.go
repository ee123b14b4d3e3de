package openai_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// scored is an answer to echo with logprobs, as clients that measure likelihoods read it.
type scored struct {
	Choices []struct {
		Index    int    `json:"index"`
		Text     string `json:"text"`
		Finish   string `json:"finish_reason"`
		Logprobs struct {
			Tokens  []string             `json:"tokens"`
			Values  []*float64           `json:"token_logprobs"`
			Top     []map[string]float64 `json:"top_logprobs"`
			Offsets []int                `json:"text_offset"`
		} `json:"logprobs"`
	} `json:"choices"`
	Usage struct {
		Prompt    int `json:"prompt_tokens"`
		Completed int `json:"completion_tokens"`
	} `json:"usage"`
}

// Log-probabilities of a prompt are those that each of its tokens has as the next one after those before it.
func TestEchoWithLogprobs(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	prompts := []string{"Once upon a time, there was a little girl",
		"The zebra's spanner ¿qué? 語 of Lily, and of the dog that she had; it was big."}
	ids := make([][]int32, len(prompts))
	for i, p := range prompts {
		ids[i] = s.Tokens(p)
	}
	schema := s.Document().Answers("post", "/v1/completions", "200")
	list, _ := json.Marshal(ids)
	texts, _ := json.Marshal(prompts)
	for _, c := range []struct {
		prompt string
		max    int
	}{{string(list), 1}, {string(list), 0}, {string(texts), 5}} {
		_, b, _ := s.Do("POST", "/v1/completions",
			fmt.Sprintf(`{"prompt":%s,"max_tokens":%d,"temperature":0,"logprobs":1,"echo":true,"seed":1234}`, c.prompt, c.max))
		if err := fake.Valid(t, schema, b); err != nil {
			t.Errorf("the document does not describe it: %v", err)
		}
		a := fake.Parse[scored](t, b)
		if len(a.Choices) != len(prompts) || a.Usage.Prompt != len(ids[0])+len(ids[1]) ||
			a.Usage.Completed != len(prompts)*c.max {
			t.Fatalf("%+v", a)
		}
		for i, got := range a.Choices {
			l, n := got.Logprobs, len(ids[i])
			if len(l.Tokens) != n+c.max || len(l.Values) != n+c.max || len(l.Top) != n+c.max || len(l.Offsets) != n+c.max {
				t.Fatalf("%d + %d tokens: %d tokens, %d values, %d of the likeliest, %d offsets", n, c.max, len(l.Tokens),
					len(l.Values), len(l.Top), len(l.Offsets))
			}
			if l.Values[0] != nil || l.Top[0] != nil {
				t.Errorf("the first token has %v and %v, want null", l.Values[0], l.Top[0])
			}
			if !strings.HasPrefix(got.Text, prompts[i]) || got.Finish != "length" {
				t.Errorf("text %q, %s", got.Text, got.Finish)
			}
			for k := 1; k < n; k++ {
				want := s.Probs(ids[i][:k])
				best := slices.Max(values(want))
				exact, known := want[ids[i][k]]
				if known && *l.Values[k] != exact || !known && *l.Values[k] > slices.Min(values(want)) {
					t.Errorf("token %d: %v, want %v", k, *l.Values[k], exact)
				}
				if greedy := *l.Values[k] == slices.Max(values(l.Top[k])); greedy != (exact == best) ||
					slices.Max(values(l.Top[k])) != best {
					t.Errorf("token %d: %v among %v, the likeliest has %v", k, *l.Values[k], l.Top[k], best)
				}
			}
			runes := []rune(got.Text)
			for k := range l.Offsets[:len(l.Offsets)-1] {
				said := string(runes[l.Offsets[k]:l.Offsets[k+1]])
				if bos := k == 0; !bos && !strings.Contains(l.Tokens[k], "\uFFFD") && l.Tokens[k] != said &&
					l.Tokens[k] != " "+said {
					t.Errorf("token %d is %q, and the text has %q there", k, l.Tokens[k], said)
				}
			}
			if at := l.Offsets[n-1]; at >= len([]rune(prompts[i])) || c.max > 0 && l.Offsets[n] != len([]rune(prompts[i])) {
				t.Errorf("offsets %v of a prompt of %d characters", l.Offsets, len([]rune(prompts[i])))
			}
		}
	}
}

func values[K comparable](m map[K]float64) (all []float64) {
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// Streams begin with the prompt; each of several answers has it.
func TestEchoWithLogprobsStreams(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	body := `{"prompt":"Once upon a time","max_tokens":4,"temperature":1,"seed":3,"n":3,"logprobs":2,"echo":true`
	whole := fake.Post[scored](s, "/v1/completions", body+`}`)
	streamed := make([]scored, 3)
	for _, e := range s.Events("/v1/completions", body+`,"stream":true}`) {
		if e == "[DONE]" {
			continue
		}
		for _, c := range fake.Parse[scored](t, []byte(e)).Choices {
			if streamed[c.Index].Choices == nil {
				streamed[c.Index].Choices = append(streamed[c.Index].Choices, c)
				continue
			}
			to := &streamed[c.Index].Choices[0]
			to.Text += c.Text
			to.Finish = c.Finish
			to.Logprobs.Tokens = append(to.Logprobs.Tokens, c.Logprobs.Tokens...)
			to.Logprobs.Values = append(to.Logprobs.Values, c.Logprobs.Values...)
			to.Logprobs.Top = append(to.Logprobs.Top, c.Logprobs.Top...)
			to.Logprobs.Offsets = append(to.Logprobs.Offsets, c.Logprobs.Offsets...)
		}
	}
	for i, want := range whole.Choices {
		if got := fmt.Sprintf("%+v", forPrint(streamed[i].Choices[0])); got != fmt.Sprintf("%+v", forPrint(want)) {
			t.Errorf("stream %d: %s\nwhole: %+v", i, got, forPrint(want))
		}
		if n := len(s.Tokens("Once upon a time")); len(want.Logprobs.Values) != n+4 || want.Logprobs.Values[0] != nil ||
			want.Logprobs.Values[1] == nil {
			t.Errorf("answer %d has %d values", i, len(want.Logprobs.Values))
		}
	}
}

// forPrint is a value as JSON: pointers differ.
func forPrint(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// Clients drop as many values at the end as tokens were generated: a token that ends the text is one of them.
func TestEchoWithLogprobsAtTheEnd(t *testing.T) {
	t.Parallel()
	s := fake.Scripted(t, scripted.Model{Template: "{% for m in messages %}{{ m.content }}{% endfor %}",
		Scripts: []scripted.Script{{Text: "ab"}}})
	prompt := scripted.Start(0) + "ab"
	a := fake.Post[scored](s, "/v1/completions",
		fmt.Sprintf(`{"prompt":%q,"max_tokens":1,"temperature":0,"logprobs":1,"echo":true}`, prompt))
	if n := len(s.Tokens(prompt)); a.Choices[0].Finish != "stop" || len(a.Choices[0].Logprobs.Values) != n+1 ||
		a.Choices[0].Text != prompt {
		t.Errorf("a prompt of %d tokens that ends: %s", n, forPrint(a))
	}
}

// A prompt of one token has nothing before it that could tell its probability.
func TestEchoWithLogprobsOfOneToken(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	id := s.Tokens("Once")[1]
	a := fake.Post[scored](s, "/v1/completions",
		fmt.Sprintf(`{"prompt":[%d],"max_tokens":0,"logprobs":1,"echo":true}`, id))
	if l := a.Choices[0].Logprobs; len(l.Values) != 1 || l.Values[0] != nil {
		t.Errorf("%s", forPrint(a))
	}
	full := make([]int32, 1024)
	for i := range full {
		full[i] = id
	}
	ids, _ := json.Marshal(full)
	if a := fake.Post[scored](s, "/v1/completions",
		fmt.Sprintf(`{"prompt":%s,"max_tokens":0,"logprobs":1,"echo":true}`,
			ids)); len(a.Choices[0].Logprobs.Values) != 1024 {
		t.Errorf("a prompt that fills the context has %d values", len(a.Choices[0].Logprobs.Values))
	}
	if status, b, _ := s.Do("POST", "/v1/completions",
		fmt.Sprintf(`{"prompt":%s,"max_tokens":1,"logprobs":1,"echo":true}`, ids)); status != 400 ||
		!strings.Contains(string(b), "context_length_exceeded") {
		t.Errorf("a prompt that leaves no room for a token: %d %s", status, b)
	}
	s.Refused("/v1/completions", `{"prompt":"x","logprobs":1,"echo":true,"post_sampling_probs":true}`, 400,
		"post_sampling_probs")
	s.Refused("/v1/completions", `{"prompt":"x","logprobs":1,"echo":true,"suffix":"y"}`, 400, "suffix")
}

// Tokens that a client sends are those that are answered for, also where they begin with two BOS.
func TestEchoWithLogprobsOfIDs(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	ids := s.Tokens("Once upon")
	ids = append(ids[:1:1], ids...)
	list, _ := json.Marshal(ids)
	a := fake.Post[scored](s, "/v1/completions",
		fmt.Sprintf(`{"prompt":%s,"max_tokens":0,"logprobs":1,"echo":true}`, list))
	if l := a.Choices[0].Logprobs; len(l.Values) != len(ids) || len(l.Tokens) != len(ids) || l.Tokens[0] != l.Tokens[1] ||
		a.Usage.Prompt != len(ids) {
		t.Errorf("%d tokens: %s", len(ids), forPrint(a))
	}
}

// vLLM's own field for them has the tokens by id, with their ranks.
func TestPromptLogprobs(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	const prompt = "Once upon a time, there was a zebra"
	type one struct {
		Logprob float64 `json:"logprob"`
		Rank    int     `json:"rank"`
		Text    string  `json:"decoded_token"`
	}
	type answer struct {
		Choices []struct {
			Text     string          `json:"text"`
			Logprobs json.RawMessage `json:"logprobs"`
			Prompt   []map[int32]one `json:"prompt_logprobs"`
		} `json:"choices"`
	}
	_, b, _ := s.Do("POST", "/v1/completions",
		fmt.Sprintf(`{"prompt":%q,"max_tokens":2,"temperature":0,"prompt_logprobs":2}`, prompt))
	if err := fake.Valid(t, s.Document().Answers("post", "/v1/completions", "200"), b); err != nil {
		t.Errorf("the document does not describe it: %v", err)
	}
	a := fake.Parse[answer](t, b).Choices[0]
	ids := s.Tokens(prompt)
	if len(a.Prompt) != len(ids) || a.Prompt[0] != nil || string(a.Logprobs) != "null" ||
		strings.Contains(a.Text, "Once") {
		t.Fatalf("%s", b)
	}
	for k := 1; k < len(ids); k++ {
		all := s.Probs(ids[:k])
		own, ok := a.Prompt[k][ids[k]]
		rank := 1
		for _, v := range all {
			if v > own.Logprob {
				rank++
			}
		}
		if exact, known := all[ids[k]]; !ok || known && (own.Logprob != exact || own.Rank != rank) || own.Rank < 1 ||
			len(a.Prompt[k]) > 3 || len(a.Prompt[k]) < 2 {
			t.Errorf("token %d: %+v, want %v and rank %d", k, a.Prompt[k], all[ids[k]], rank)
		}
		best := slices.Max(values(all))
		if !slices.ContainsFunc(slices.Collect(maps.Values(a.Prompt[k])),
			func(o one) bool { return o.Rank == 1 && o.Logprob == best && o.Text != "" }) {
			t.Errorf("token %d: %+v, the likeliest has %v", k, a.Prompt[k], best)
		}
	}
	both := fake.Post[scored](s, "/v1/completions",
		fmt.Sprintf(`{"prompt":%q,"max_tokens":0,"logprobs":1,"echo":true,"prompt_logprobs":5}`, prompt)).Choices[0]
	for k := 1; k < len(ids); k++ {
		if n := len(both.Logprobs.Top[k]); *both.Logprobs.Values[k] != a.Prompt[k][ids[k]].Logprob || n < 1 || n > 2 {
			t.Errorf("token %d: %v and %d of the likeliest beside prompt_logprobs", k, *both.Logprobs.Values[k], n)
		}
	}
	s.Refused("/v1/completions", `{"prompt":"x","prompt_logprobs":1,"stream":true}`, 400, "prompt_logprobs")
}
