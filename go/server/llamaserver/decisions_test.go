package llamaserver_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

func decide(t *testing.T, s *fake.Site, body string) decisions {
	t.Helper()
	return fake.Post[decisions](s, "/v1/decisions", body)
}

// Probabilities are those of the tokens that prompt and choice have together, wherever the
// prompt is cut: exactly those that /completion has.
func TestDecisions(t *testing.T) {
	t.Parallel()
	s := fake.Embedder(t, nil)
	for _, prompt := range []string{"Once upon a time, there was a little", "Once upon a time, there was a little ",
		"Lily and her mom went to the pa"} {
		choices := []string{" girl", " boy named Tim", " dog"}
		if !strings.HasSuffix(prompt, "little") {
			choices = []string{"rk", "rty"}
			if strings.HasSuffix(prompt, " ") {
				choices = []string{"girl", "boy named Tim", "dog"}
			}
		}
		body, _ := json.Marshal(map[string]any{"prompt": prompt, "choices": choices})
		d := decide(t, s, string(body)).Decisions[0]
		var whole [][]int32
		common := s.Tokens(prompt)
		for _, c := range choices {
			whole = append(whole, s.Tokens(prompt+c))
			common = sharedTokens(common, whole[len(whole)-1])
		}
		total := 0.0
		for i, ids := range whole {
			want := 0.0
			for k := len(common); k < len(ids); k++ {
				want += s.Probs(ids[:k])[ids[k]]
			}
			if got := d.Choices[i]; math.Abs(got.Logprob-want) > 1e-6 || got.Tokens != len(ids)-len(common) ||
				got.Text != choices[i] {
				t.Errorf("%q: %+v, want %g", prompt, got, want)
			}
			total += math.Exp(want)
		}
		for i, c := range d.Choices {
			if p := math.Exp(c.Logprob) / total; math.Abs(c.Probability-p) > 1e-9 ||
				c.Probability > d.Choices[d.Index].Probability || d.Choice != choices[d.Index] {
				t.Errorf("%q: choice %d: %+v, want the probability %g; chosen %d %q", prompt, i, c, p, d.Index, d.Choice)
			}
		}
	}
}

// Questions over one context are answered as each is alone, in any company, from one evaluation of
// the context.
func TestDecisionQuestions(t *testing.T) {
	t.Parallel()
	s := fake.Embedder(t, nil)
	context := strings.Repeat("The little dog ran to the big tree and saw a red ball. ", 12)
	type ask map[string]any
	questions := []ask{
		{"name": "who", "prompt": "It was a", "choices": []string{" dog", " cat", " good day"}},
		{"name": "what", "prompt": "The ball was", "choices": []string{" red", " big and round"}},
	}
	body, _ := json.Marshal(ask{"prompt": context, "questions": questions})
	first := decide(t, s, string(body))
	n := len(s.Tokens(context))
	if used := first.Usage; used.PromptTokens < n || used.PromptTokens > n+40 || used.Details.Cached != 0 {
		t.Errorf("%+v for a context of %d tokens", used, n)
	}
	var wg sync.WaitGroup
	for i, one := range questions {
		wg.Go(func() {
			body, _ := json.Marshal(ask{"prompt": context + one["prompt"].(string), "choices": one["choices"]})
			a := decide(t, s, string(body))
			if got, want := a.Decisions[0], first.Decisions[i]; fmt.Sprint(got.Choices) != fmt.Sprint(want.Choices) ||
				want.Name != one["name"] {
				t.Errorf("alone %+v, among others %+v", got, want)
			}
			if used := a.Usage; used.Details.Cached < n-2 {
				t.Errorf("%+v: the context of %d tokens was in the cache", used, n)
			}
		})
	}
	wg.Wait()
	// What a choice owes to the prior is taken off.
	body, _ = json.Marshal(ask{"prompt": context, "prior": "N/A. ", "questions": questions, "normalize": "tokens"})
	for i, d := range decide(t, s, string(body)).Decisions {
		alone, _ := json.Marshal(ask{"prompt": "N/A. " + questions[i]["prompt"].(string), "choices": questions[i]["choices"]})
		for k, c := range decide(t, s, string(alone)).Decisions[0].Choices {
			if p := d.Choices[k].Prior; p == nil || *p != c.Logprob {
				t.Errorf("choice %d has the prior %v, alone %g", k, p, c.Logprob)
			}
		}
		best, total := math.Inf(-1), 0.0
		scores := []float64{}
		for k, c := range d.Choices {
			if c.Prior == nil || c.Logprob != first.Decisions[i].Choices[k].Logprob {
				t.Fatalf("with a prior %+v, without %+v", c, first.Decisions[i].Choices[k])
			}
			scores = append(scores, (c.Logprob-*c.Prior)/float64(c.Tokens))
			total += math.Exp(scores[k])
			best = max(best, scores[k])
		}
		for k, c := range d.Choices {
			if p := math.Exp(scores[k]) / total; math.Abs(c.Probability-p) > 1e-9 {
				t.Errorf("choice %d has %g, want %g", k, c.Probability, p)
			}
		}
		if scores[d.Index] != best {
			t.Errorf("chosen %d of %v", d.Index, scores)
		}
	}
	// A choice that is a whole answer is less likely than one that may go on.
	open := decide(t, s, `{"messages":[{"role":"user","content":"Tell me a story."}],"choices":["Once","Once upon"],"ends":false}`).Decisions[0]
	whole := decide(t, s, `{"messages":[{"role":"user","content":"Tell me a story."}],"choices":["Once","Once upon"]}`).Decisions[0]
	for i := range open.Choices {
		if whole.Choices[i].Logprob >= open.Choices[i].Logprob {
			t.Errorf("as a whole answer %+v, as a beginning %+v", whole.Choices[i], open.Choices[i])
		}
	}
	if open.Choices[0].Logprob < open.Choices[1].Logprob {
		t.Errorf("a beginning is less likely than what goes on from it: %+v", open.Choices)
	}
}

func TestDecisionsRefused(t *testing.T) {
	t.Parallel()
	s := fake.Embedder(t, nil)
	for _, tt := range []struct {
		body, want string
	}{
		{`{"choices":["a","b"]}`, "prompt: missing"},
		{`{"prompt":"a","messages":[{"role":"user","content":"a"}],"choices":["a","b"]}`, "messages: given together"},
		{`{"prompt":"a"}`, "choices: missing"},
		{`{"prompt":"a","choices":["a"]}`, "choices: 1, want at least 2"},
		{`{"prompt":"a","choices":["a","a"]}`, "choices: element 1: \\\"a\\\" is there twice"},
		{`{"prompt":"a","choices":["a",""]}`, "choices: element 1: empty"},
		{`{"prompt":"a","choices":["a","b"],"questions":[]}`, "questions: empty"},
		{`{"prompt":"a","questions":[{"choices":["a"]}]}`, "questions: element 0: choices: 1"},
		{`{"prompt":"a","questions":[{"prompt":"b"}]}`, "questions: element 0: choices: missing"},
		{`{"prompt":"a","choices":["a","b"],"normalize":"words"}`, "normalize: "},
		{`{"prompt":"a","choices":["a","b"],"prior":1}`, "prior: "},
		{`{"prompt":"` + strings.Repeat("a dog and ", 2000) + `","choices":["a","b"]}`, "exceeds the available context"},
	} {
		if status, body, _ := s.Do("POST", "/v1/decisions", tt.body); status != 400 ||
			!strings.Contains(string(body), tt.want) {
			t.Errorf("%.80s: %d %s, want %s", tt.body, status, body, tt.want)
		}
	}
}

// A prior is in the place of the last message of the user, and a model that generates nothing decides nothing.
func TestPriorsOfConversations(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	d := decide(t, s, `{"messages":[{"role":"user","content":"first"},{"role":"assistant","content":"so"},{"role":"user","content":"last"}],
		"prior":"N/A","questions":[{"name":"q","prompt":"why?","choices":["x","y"]},{"choices":["x","z"]}]}`).Decisions
	if len(d) != 2 || d[0].Name != "q" || d[0].Choices[0].Prior == nil {
		t.Fatalf("%+v", d)
	}
	kinds := map[string]int{}
	for _, r := range s.Requests {
		text := s.Tok.Detokenize(r.Prompt, true)
		if !strings.Contains(text, "first") || !strings.Contains(text, "so") || strings.Contains(text, "last") && strings.Contains(text, "N/A") {
			t.Errorf("%q", text)
		}
		if strings.HasSuffix(text, "x") || strings.HasSuffix(text, "y") || strings.HasSuffix(text, "z") {
			for _, word := range []string{"last", "N/A", "why?"} {
				if strings.Contains(text, word) {
					kinds[word]++
				}
			}
		}
	}
	if b, _ := json.Marshal(kinds); string(b) != `{"N/A":4,"last":4,"why?":4}` {
		t.Errorf("choices behind %s", b)
	}
	only := fake.New(t, "", func(_ *server.Config, m *ask.Model, _ *fake.Engine) { m.VectorsOnly = "it makes vectors" })
	if status, b, _ := only.Do("POST", "/v1/decisions", `{"prompt":"a","choices":["x","y"]}`); status != 501 || !strings.Contains(string(b), "it makes vectors; use /v1/embeddings") {
		t.Errorf("%d %s", status, b)
	}
	p := fake.Parse[struct {
		Data []struct {
			Arch struct {
				Output []string `json:"output_modalities"`
			} `json:"architecture"`
		}
		Models []struct{ Capabilities []string }
	}](t, only.Get("/v1/models"))
	if p.Data[0].Arch.Output[0] != "embeddings" || p.Models[0].Capabilities[0] != "embedding" {
		t.Errorf("%+v", p)
	}
}

// sharedTokens returns what two lists of tokens begin with.
func sharedTokens(a, b []int32) []int32 {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n]
}
