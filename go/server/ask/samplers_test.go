package ask_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/server/internal/fake"
)

// chains are requests for each of the samplers, which keep a state or none.
var chains = map[string]string{
	"dry":        `"dry_multiplier":1.5,"dry_base":1.3,"dry_allowed_length":1,"dry_penalty_last_n":-1,"dry_sequence_breakers":["."," the"]`,
	"penalties":  `"repeat_penalty":1.3,"repeat_last_n":-1,"frequency_penalty":0.2`,
	"top_nsigma": `"top_n_sigma":1.2`,
	"typical":    `"typical_p":0.7,"top_k":0,"min_keep":3`,
	"xtc":        `"xtc_probability":0.5,"xtc_threshold":0.05`,
	"dynatemp":   `"dynatemp_range":0.6,"dynatemp_exponent":1.3`,
	"mirostat1":  `"mirostat":1,"mirostat_tau":3,"mirostat_eta":0.3`,
	"mirostat2":  `"mirostat":2,"mirostat_tau":3,"mirostat_eta":0.3`,
	"adaptive":   `"adaptive_target":0.4,"adaptive_decay":0.8,"samplers":["min_p","adaptive_p"]`,
	"any order":  `"samplers":"tmkpkxye","xtc_probability":0.3,"xtc_threshold":0.02,"typical_p":0.9,"repeat_penalty":1.1`,
	"infill":     `"samplers":["top_k","top_p","infill","temperature"]`,
}

// Four answers are those of their seeds alone, among other requests, when others with
// more priority take their place, and on an engine that keeps nothing.
func TestSamplersOnTheEngine(t *testing.T) {
	t.Parallel()
	type completion struct{ Choices []struct{ Text string } }
	body := func(fields string, n, seed, priority int) string {
		return fmt.Sprintf(`{"prompt":"Once upon a time, there was a","n":%d,"seed":%d,"max_tokens":20,"priority":%d,%s}`, n,
			seed, priority, fields)
	}
	alone := fake.Demo(t, fake.Setup{})
	want := map[string][]string{}
	different := map[string]bool{}
	for name, fields := range chains {
		for seed := range 4 {
			want[name] = append(want[name], fake.Post[completion](alone, "/v1/completions",
				body(fields, 1, seed, 0)).Choices[0].Text)
		}
		different[fmt.Sprint(want[name])] = true
	}
	if len(different) != len(chains) {
		t.Errorf("of %d chains %d differ: %q", len(chains), len(different), want)
	}
	s := fake.Demo(t, fake.Setup{})
	var wg sync.WaitGroup
	for round := range 2 {
		for name, fields := range chains {
			wg.Go(func() {
				for i, c := range fake.Post[completion](s, "/v1/completions", body(fields, 4, 0, round*5)).Choices {
					if c.Text != want[name][i] {
						t.Errorf("%s, seed %d: %q among others, %q alone", name, i, c.Text, want[name][i])
					}
				}
			})
		}
		// The second round preempts the first.
		fake.Eventually(t, "busy", func() bool { return s.Model().Engine.Status().Counts.Passes > 2 })
	}
	wg.Wait()
	if n := s.Model().Engine.Status().Counts.Preemptions; n == 0 {
		t.Error("no request was preempted")
	}
}

// What /props and answers show is what is in effect.
func TestSamplersShown(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	fields := `"dry_multiplier":0.5,"dry_sequence_breakers":["x"],"xtc_probability":0.25,"mirostat":0,"min_keep":2,"typ_p":0.5,"samplers":["temp","XTC","top-k","dry"],"post_sampling_probs":true,"adaptive_target":0.5,"repetition_penalty":1.25`
	got := fake.Post[struct {
		Settings map[string]any `json:"generation_settings"`
	}](s, "/completion", `{"prompt":"Lily","n_predict":2,`+fields+`}`).Settings
	for name, want := range map[string]string{
		"dry_multiplier": "0.5", "dry_sequence_breakers": `["x"]`, "xtc_probability": "0.25", "min_keep": "2",
		"typical_p": "0.5",
		"samplers":  `["temperature","xtc","top_k","dry"]`, "post_sampling_probs": "true", "adaptive_target": "0.5",
		"mirostat_tau": "5", "repeat_penalty": "1.25",
	} {
		if b, err := json.Marshal(got[name]); err != nil || string(b) != want {
			t.Errorf("%s is %s, want %s", name, b, want)
		}
	}
}

// Probabilities after the samplers are those of what is left, and add up to one.
func TestPostSamplingProbs(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	type chance struct {
		ID   int32
		Prob float64
		Top  []chance `json:"top_probs"`
	}
	ask := func(more string) []chance {
		return fake.Post[struct {
			Probs []chance `json:"completion_probabilities"`
		}](s, "/completion", `{"prompt":"Once upon a time","n_predict":6,"seed":3,"n_probs":50,"post_sampling_probs":true,`+more+`}`).Probs
	}
	for more, left := range map[string]int{`"top_k":5,"top_p":1,"min_p":0`: 5, `"temperature":0`: 1,
		`"top_k":7,"min_keep":7,"mirostat":0,"typical_p":0.1,"top_p":0.1`: 7} {
		tokens := ask(more)
		if len(tokens) != 6 {
			t.Fatalf("%s: %v", more, tokens)
		}
		for _, one := range tokens {
			sum, own := 0.0, false
			for _, top := range one.Top {
				sum += top.Prob
				own = own || top.ID == one.ID && top.Prob == one.Prob
			}
			if math.Abs(sum-1) > 1e-5 || !own || len(one.Top) != left {
				t.Errorf("%s: %+v", more, one)
			}
		}
	}
	_, chat, _ := s.Do("POST", "/v1/chat/completions",
		`{`+fake.Hi+`,"max_tokens":1,"logprobs":true,"top_logprobs":2,"post_sampling_probs":true}`)
	if !strings.Contains(string(chat), `"top_probs":[{"id":`) {
		t.Errorf("a chat: %s", chat)
	}
}

// Biases by id, by text and by false, beside others that have none: each answer
// is that of the same request alone.
func TestRealBias(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	bodies := []string{
		`{"prompt":"Once upon a time","max_tokens":12,"temperature":1,"n":3,"seed":1,"logit_bias":{",":-100,"5":2}}`,
		`{"prompt":"Once upon a time","max_tokens":12,"temperature":1,"n":3,"seed":1,"logit_bias":[[",",false],["-5",1]]}`,
		`{"prompt":"Once upon a time","max_tokens":12,"temperature":1,"n":3,"seed":1}`,
	}
	type texts struct{ Choices []struct{ Text string } }
	alone := map[string]string{}
	for _, body := range bodies {
		alone[body] = fmt.Sprint(fake.Post[texts](s, "/v1/completions", body))
	}
	if alone[bodies[0]] == alone[bodies[2]] {
		t.Errorf("the biases change nothing: %v", alone)
	}
	var wg sync.WaitGroup
	for range 3 {
		for _, body := range bodies {
			wg.Go(func() {
				if got := fmt.Sprint(fake.Post[texts](s, "/v1/completions", body)); got != alone[body] {
					t.Errorf("%s: %s among others, %s alone", body, got, alone[body])
				}
			})
		}
	}
	wg.Wait()
	for _, bias := range []string{`{"-5":3}`, `{"99999999999999999999":3}`, `{"100000":3}`, `[[-5,3]]`, `[[100000,3]]`} {
		s.Refused("/v1/completions", `{"prompt":"x","logit_bias":`+bias+`}`, 400, "logit_bias")
	}
}
