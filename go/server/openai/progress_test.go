package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server/internal/fake"
)

// A progressEvent is what a stream says while a prompt is evaluated.
type progressEvent struct {
	Slot     *int            `json:"id_slot"`
	Progress *promptProgress `json:"prompt_progress"`
	Timings  *timings        `json:"timings"`
}

// A stream says how far the prompt is before anything is evaluated: what comes of
// the cache. Its events name the slot and have timings.
func TestRealProgress(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	prompt := strings.Repeat("Once upon a time there was a dog. ", 40)
	for round, cached := range []bool{false, true} {
		for path, body := range map[string]string{
			"/completion":          `{"prompt":%q,"stream":true,"return_progress":true,"timings_per_token":true,"n_predict":2,"id_slot":3}`,
			"/v1/completions":      `{"prompt":%q,"stream":true,"return_progress":true,"timings_per_token":true,"max_tokens":2,"n":2}`,
			"/v1/chat/completions": `{"messages":[{"role":"user","content":%q}],"stream":true,"return_progress":true,"timings_per_token":true,"max_tokens":2,"n":2}`,
		} {
			var first, last *promptProgress
			for _, e := range s.Events(path, fmt.Sprintf(body, prompt)) {
				if e == "[DONE]" {
					continue
				}
				got := fake.Parse[progressEvent](t, []byte(e))
				if path == "/completion" && (got.Slot == nil || *got.Slot != 3) {
					t.Errorf("%s: the slot of %s", path, e)
				}
				if got.Progress == nil {
					continue
				}
				if first == nil {
					first = got.Progress
				}
				if last = got.Progress; got.Timings == nil || got.Timings.PromptN != last.Processed-last.Cache ||
					got.Timings.CacheN != last.Cache {
					t.Errorf("%s: timings of %s", path, e)
				}
			}
			if first == nil || first.Processed != first.Cache || cached && first.Cache == 0 || last.Processed != last.Total {
				t.Errorf("%s, round %d: the progress goes from %+v to %+v", path, round, first, last)
			}
		}
	}
}

// A stream of a response says how far the prompt is in events response.in_progress, and with timings_per_token all that comes of the
// model has timings, the last too; without being asked it has neither.
func TestRealProgressOfAResponse(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	body := fmt.Sprintf(`{"input":%q,"stream":true,"max_output_tokens":3`, strings.Repeat("Once upon a time there was a dog. ", 40))
	type event struct {
		Type     string
		Progress *promptProgress `json:"prompt_progress"`
		Timings  *timings        `json:"timings"`
		Response *struct{ Status string }
	}
	for _, asked := range []bool{true, false} {
		more := "}"
		if asked {
			more = `,"return_progress":true,"timings_per_token":true}`
		}
		var last event
		deltas, progress := 0, 0
		for _, e := range s.NamedEvents("/v1/responses", body+more) {
			last = fake.Parse[event](t, []byte(e))
			if last.Progress != nil {
				if progress++; last.Type != "response.in_progress" || last.Timings == nil || last.Progress.Processed < last.Progress.Cache ||
					last.Progress.Total < 100 || last.Response == nil || last.Response.Status != "in_progress" {
					t.Errorf("%s", e)
				}
			}
			if last.Type == "response.output_text.delta" {
				if deltas++; (last.Timings != nil) != asked || asked && last.Timings.PredictedN < 1 {
					t.Errorf("%s", e)
				}
			}
		}
		if (progress > 0) != asked || deltas == 0 || last.Response == nil || (last.Timings != nil) != asked || asked && last.Timings.PredictedN != 3 {
			t.Errorf("asked %v: %d of progress, %d deltas, then %+v", asked, progress, deltas, last)
		}
	}
}

// __verbose is llama-server's form of the answer, on OpenAI's endpoints.
func TestRealVerbose(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	for path, body := range map[string]string{"/v1/chat/completions": fake.Hi, "/v1/completions": `"prompt":"Once"`} {
		body = "{" + body + `,"max_tokens":3,"verbose":true,"n":2,"seed":3`
		type verbose struct {
			Verbose map[string]any `json:"__verbose"`
			Usage   *tokenUsage
			Timings *timings
		}
		v := fake.Post[verbose](s, path, body+"}").Verbose
		if v["stop_type"] != "limit" || v["tokens_predicted"] != 3.0 ||
			v["generation_settings"].(map[string]any)["seed"] != 3.0 || v["prompt"] == "" {
			t.Errorf("%s: got %v", path, v)
		}
		ends := 0
		events := s.Events(path, body+`,"stream":true,"stream_options":{"include_usage":true}}`)
		for _, e := range events[:len(events)-1] {
			got := fake.Parse[verbose](t, []byte(e))
			if got.Verbose != nil {
				ends++
			}
			if got.Usage != nil && (got.Timings == nil || got.Timings.PredictedN != 3 || got.Usage.CompletionTokens != 6) {
				t.Errorf("%s: the usage event is %s", path, e)
			}
		}
		if ends != 2 {
			t.Errorf("%s: %d events with __verbose, want one for each answer", path, ends)
		}
		if _, b, _ := s.Do("POST", path, strings.Replace(body, `"verbose":true`, `"verbose":false`, 1)+
			"}"); strings.Contains(string(b), "__verbose") {
			t.Errorf("%s: __verbose that nobody asked for: %s", path, b)
		}
	}
}

// A prompt that is too long is refused in llama-server's words, and with the code
// that OpenAI's clients look for where they look.
func TestRealTooLong(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	long := strings.Repeat("dog ", 3000)
	for path, c := range map[string]struct {
		body string
		code any
	}{
		"/completion":          {`{"prompt":%q}`, 400.0},
		"/v1/completions":      {`{"prompt":%q}`, "context_length_exceeded"},
		"/v1/chat/completions": {`{"messages":[{"role":"user","content":%q}]}`, "context_length_exceeded"},
		"/chat/completions":    {`{"messages":[{"role":"user","content":%q}],"stream":true}`, "context_length_exceeded"},
		"/completions":         {`{"prompt":%q,"stream":true,"n":3}`, 400.0},
	} {
		status, b, _ := s.Do("POST", path, fmt.Sprintf(c.body, long))
		e := fake.ErrorOf(t, b)
		if status != 400 || e.Code != c.code || e.Type != "exceed_context_size_error" || e.Prompt < 3000 || e.Ctx != 1024 ||
			!strings.Contains(e.Message, "exceeds the available context size") {
			t.Errorf("%s: got %d %s", path, status, b)
		}
	}
}
