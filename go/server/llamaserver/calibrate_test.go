package llamaserver_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// fitted is the answer of /v1/decisions/calibrate.
type fitted struct {
	Object        string
	Examples      int
	Calibration   json.RawMessage
	Before, After struct{ Accuracy, ECE, NLL float64 }
	Usage         struct {
		Prompt int `json:"prompt_tokens"`
	}
}

// A calibration is fitted to examples, and the probabilities of further requests are made with it.
func TestCalibration(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	var examples []map[string]any
	for i, name := range []string{"Tom", "Anna", "a dog", "Ben", "a bird", "Lily"} {
		label := []string{" play", " sleep"}[i%2] // which the texts do not tell
		examples = append(examples, map[string]any{"prompt": "Once there was " + name + " who liked to", "label": label})
	}
	fit := func(more map[string]any) fitted {
		t.Helper()
		body := map[string]any{"choices": []string{" play", " sleep"}, "examples": examples}
		for k, v := range more {
			body[k] = v
		}
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		status, raw, _ := s.Do("POST", "/v1/decisions/calibrate", string(b))
		if status != 200 {
			t.Fatalf("%d %s", status, raw)
		}
		return fake.Parse[fitted](t, raw)
	}
	for _, more := range []map[string]any{{}, {"prior": "N/A"}, {"normalize": "tokens"}} {
		a := fit(more)
		if a.Object != "decision.calibration" || a.Examples != 6 || a.Usage.Prompt == 0 {
			t.Errorf("%v: %+v", more, a)
		}
		if a.Before.Accuracy != 0.5 || a.Before.ECE < 0.1 || a.After.NLL >= a.Before.NLL {
			t.Errorf("%v: before %+v, after %+v, by %s", more, a.Before, a.After, a.Calibration)
		}
	}
	// What is sent with it: the probabilities are those of the scores by the formula, whole and of a question.
	a := fit(nil)
	var c struct {
		Temperature float64
		Bias        []float64
	}
	if err := json.Unmarshal(a.Calibration, &c); err != nil || len(c.Bias) != 2 {
		t.Fatalf("%v in %s", err, a.Calibration)
	}
	const asked = `{"prompt":"Once there was Sue who liked to",`
	of := `"choices":[" play"," sleep"],"calibration":` + string(a.Calibration)
	plain := decide(t, s, asked+`"choices":[" play"," sleep"]}`).Decisions[0].Choices
	e := [2]float64{}
	for i, ch := range plain {
		e[i] = math.Exp(ch.Logprob/c.Temperature + c.Bias[i])
	}
	for _, body := range []string{asked + of + "}", asked + `"questions":[{` + of + `}]}`} {
		got := decide(t, s, body).Decisions[0].Choices
		if want := e[0] / (e[0] + e[1]); math.Abs(got[0].Probability-want) > 1e-9 || got[0].Logprob != plain[0].Logprob ||
			got[0].Probability == plain[0].Probability {
			t.Errorf("%s: %+v, want %g", body, got[0], want)
		}
	}
	// Conversations are examples too.
	hi := func(text, label string) string {
		return `{"messages":[{"role":"user","content":"` + text + `"}],"label":"` + label + `"}`
	}
	status, b, _ := s.Do("POST", "/v1/decisions/calibrate", `{"choices":["yes","no"],"examples":[`+hi("Is it?", "yes")+`,`+hi("Or not?", "no")+`]}`)
	if status != 200 {
		t.Errorf("%d %s", status, b)
	}
}

// All examples of a request have one deadline.
func TestCalibrationHasOneDeadline(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	until := map[time.Time]int{}
	s := fake.Demo(t, fake.Setup{Submitted: func(r *engine.Request) {
		mu.Lock()
		defer mu.Unlock()
		until[r.Deadline]++
	}})
	const body = `{"choices":["a","b"],"examples":[{"prompt":"x","label":"a"},{"prompt":"y","label":"b"}]%s}`
	status, b, _ := s.Do("POST", "/v1/decisions/calibrate", fmt.Sprintf(body, `,"deadline_ms":600000`))
	if status != 200 || len(until) != 1 || until[time.Time{}] != 0 {
		t.Errorf("%d %s, the deadlines %v", status, b, until)
	}
	if status, b, _ := s.Do("POST", "/v1/decisions/calibrate", fmt.Sprintf(body, "")); status != 200 || until[time.Time{}] == 0 {
		t.Errorf("%d %s, the deadlines %v", status, b, until)
	}
}

// numbered are n further choices.
func numbered(n int) (all string) {
	for i := range n {
		all += fmt.Sprintf(`,"%d"`, i)
	}
	return all
}

func TestCalibrationRefused(t *testing.T) {
	t.Parallel()
	s := fake.Embedder(t, nil)
	two := `{"prompt":"x","label":"a"},{"prompt":"y","label":"b"}`
	for body, want := range map[string]string{
		`{"examples":[` + two + `]}`:                                                                        "choices",
		`{"choices":["a","b"]}`:                                                                             "examples",
		`{"choices":["a","b"],"examples":[{"prompt":"x","label":"a"}]}`:                                     "examples: 1, want at least 2",
		`{"choices":["a","c"],"examples":[` + two + `]}`:                                                    "element 1: the label",
		`{"choices":["a","b"],"examples":[{"label":"a"},{"label":"b"}]}`:                                    "element 0: want either",
		`{"choices":["a","b"],"examples":[{"prompt":1,"label":"a"}]}`:                                       "element 0: prompt",
		`{"choices":["a","b"],"examples":[` + strings.Repeat(two+",", 501) + two + `]}`:                     "more than 1000",
		`{"choices":["a","b"` + numbered(46) + `],"examples":[` + strings.Repeat(two+",", 208) + two + `]}`: "examples: 418, times 48 choices are 20064, want at most 20000",
	} {
		if status, b, _ := s.Do("POST", "/v1/decisions/calibrate", body); status != 400 || !strings.Contains(string(b), want) {
			t.Errorf("%.80s: %d %s, want %s", body, status, b, want)
		}
	}
	for c, want := range map[string]string{
		`{"temperature":0}`: "temperature: 0", `{"temperature":"x"}`: "temperature", `{"temperature":1e9}`: "temperature",
		`{"bias":[1]}`: "bias: 1 numbers for 2 choices", `{"bias":[1e7,0]}`: "bias: want", `{"temprature":2}`: "not known", `1`: "an object",
	} {
		if status, b, _ := s.Do("POST", "/v1/decisions", fmt.Sprintf(`{"prompt":"x","choices":["a","b"],"calibration":%s}`, c)); status != 400 ||
			!strings.Contains(string(b), want) {
			t.Errorf("%s: %d %s, want %s", c, status, b, want)
		}
		if status, b, _ := s.Do("POST", "/v1/decisions", fmt.Sprintf(`{"prompt":"x","questions":[{"choices":["a","b"],"calibration":%s}]}`, c)); status != 400 ||
			!strings.Contains(string(b), want) {
			t.Errorf("of a question: %s: %d %s, want %s", c, status, b, want)
		}
	}
	if status, b, _ := s.Do("POST", "/v1/decisions", `{"prompt":"x","questions":[{"choices":["a","b"]}],"calibration":{}}`); status != 400 {
		t.Errorf("beside questions: %d %s", status, b)
	}
}
