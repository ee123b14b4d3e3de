package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/llamaserver"
	"github.com/quern-llm/quern/go/server/openai"
)

// A progressEvent is what a stream says while a prompt is evaluated.
type progressEvent struct {
	Slot     *int                   `json:"id_slot"`
	Progress *answer.PromptProgress `json:"prompt_progress"`
	Timings  *answer.Timings        `json:"timings"`
}

// A stream says how far the prompt is before anything is evaluated: what comes of
// the cache. Its events name the slot and have timings.
func TestRealProgress(t *testing.T) {
	s := newRealSite(t, Config{}, engine.LoopConfig{}, nil)
	prompt := strings.Repeat("Once upon a time there was a dog. ", 40)
	for round, cached := range []bool{false, true} {
		for path, body := range map[string]string{
			"/completion":          `{"prompt":%q,"stream":true,"return_progress":true,"timings_per_token":true,"n_predict":2,"id_slot":3}`,
			"/v1/completions":      `{"prompt":%q,"stream":true,"return_progress":true,"timings_per_token":true,"max_tokens":2,"n":2}`,
			"/v1/chat/completions": `{"messages":[{"role":"user","content":%q}],"stream":true,"return_progress":true,"timings_per_token":true,"max_tokens":2,"n":2}`,
		} {
			var first, last *answer.PromptProgress
			for _, e := range s.events(path, fmt.Sprintf(body, prompt)) {
				if e == "[DONE]" {
					continue
				}
				got := parse[progressEvent](t, []byte(e))
				if path == "/completion" && (got.Slot == nil || *got.Slot != 3) {
					t.Errorf("%s: the slot of %s", path, e)
				}
				if got.Progress == nil {
					continue
				}
				if first == nil {
					first = got.Progress
				}
				if last = got.Progress; got.Timings == nil || got.Timings.PromptN != last.Processed-last.Cache || got.Timings.CacheN != last.Cache {
					t.Errorf("%s: timings of %s", path, e)
				}
			}
			if first == nil || first.Processed != first.Cache || cached && first.Cache == 0 || last.Processed != last.Total {
				t.Errorf("%s, round %d: the progress goes from %+v to %+v", path, round, first, last)
			}
		}
	}
}

// What /slots says of a request, while it runs and after.
func TestRealSlots(t *testing.T) {
	s := newRealSite(t, Config{}, engine.LoopConfig{}, nil)
	body := `{"prompt":"Once upon a time there was a little girl who had a big red ball and","n_predict":8,"temperature":-1,"id_slot":2,"ignore_eos":true,"top_k":5}`
	a := post[map[string]any](s, "/completion", body)
	settings := a["generation_settings"].(map[string]any)
	if settings["temperature"] != 0.0 || a["id_slot"] != 2.0 || a["tokens_predicted"] != 8.0 {
		t.Errorf("got %v", a)
	}
	if b := settings["logit_bias"].([]any); len(b) == 0 {
		t.Errorf("ignore_eos shows as %v", b)
	} else if one := b[0].(map[string]any); len(one) != 2 || one["bias"] != nil || one["token"] == nil {
		t.Errorf("ignore_eos shows as %v", b)
	}
	again := post[map[string]any](s, "/completion", body)
	_, b, _ := s.do("GET", "/slots", "")
	slot := parse[[]llamaserver.SlotEntry](t, b)[2]
	timings := again["timings"].(map[string]any)
	if again["content"] != a["content"] || timings["cache_n"] == 0.0 {
		t.Errorf("the second answer %v, want the first %v from the cache", again, a)
	}
	if slot.Processing || slot.Params["top_k"] != 5.0 || len(slot.Next) != 1 || slot.Next[0].Decoded != 8 || slot.Next[0].Remain != 0 || slot.Next[0].HasLine != again["has_new_line"] {
		t.Errorf("got %+v", slot)
	}
	if float64(slot.Cached) != timings["cache_n"] || float64(slot.Processed) != timings["prompt_n"] || slot.Prompt != slot.Cached+slot.Processed {
		t.Errorf("%d tokens, %d processed, %d cached: want %v", slot.Prompt, slot.Processed, slot.Cached, timings)
	}
}

// __verbose is llama-server's form of the answer, on OpenAI's endpoints.
func TestRealVerbose(t *testing.T) {
	s := newRealSite(t, Config{}, engine.LoopConfig{}, nil)
	for path, body := range map[string]string{"/v1/chat/completions": hi, "/v1/completions": `"prompt":"Once"`} {
		body = "{" + body + `,"max_tokens":3,"verbose":true,"n":2,"seed":3`
		type verbose struct {
			Verbose map[string]any `json:"__verbose"`
			Usage   *openai.Usage
			Timings *answer.Timings
		}
		v := post[verbose](s, path, body+"}").Verbose
		if v["stop_type"] != "limit" || v["tokens_predicted"] != 3.0 || v["generation_settings"].(map[string]any)["seed"] != 3.0 || v["prompt"] == "" {
			t.Errorf("%s: got %v", path, v)
		}
		ends := 0
		events := s.events(path, body+`,"stream":true,"stream_options":{"include_usage":true}}`)
		for _, e := range events[:len(events)-1] {
			got := parse[verbose](t, []byte(e))
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
		if _, b, _ := s.do("POST", path, strings.Replace(body, `"verbose":true`, `"verbose":false`, 1)+"}"); strings.Contains(string(b), "__verbose") {
			t.Errorf("%s: __verbose that nobody asked for: %s", path, b)
		}
	}
}

// A prompt that is too long is refused in llama-server's words, and with the code
// that OpenAI's clients look for where they look.
func TestRealTooLong(t *testing.T) {
	s := newRealSite(t, Config{}, engine.LoopConfig{}, nil)
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
		status, b, _ := s.do("POST", path, fmt.Sprintf(c.body, long))
		e := parse[errorAnswer](t, b).Error
		if status != 400 || e.Code != c.code || e.Type != "exceed_context_size_error" || e.Prompt < 3000 || e.Ctx != 1024 || !strings.Contains(e.Message, "exceeds the available context size") {
			t.Errorf("%s: got %d %s", path, status, b)
		}
	}
}

// A conversation that ends with an empty message of the assistant is one whose
// turn it is.
func TestRealEmptyLastMessage(t *testing.T) {
	s := newRealSite(t, Config{}, engine.LoopConfig{}, nil)
	turns := `{"messages":[{"role":"user","content":"Who are you?"}`
	want := post[renderedPrompt](s, "/apply-template", turns+"]}").Prompt
	for _, last := range []string{`""`, `"\n"`, `[{"type":"text","text":""}]`} {
		if got := post[renderedPrompt](s, "/apply-template", turns+`,{"role":"assistant","content":`+last+`}]}`).Prompt; got != want {
			t.Errorf("%s: got %q, want %q", last, got, want)
		}
	}
	if got := post[renderedPrompt](s, "/apply-template", turns+`,{"role":"assistant","content":"I am"}]}`).Prompt; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "I am") {
		t.Errorf("got %q, want %q with what was said", got, want)
	}
	s.refused("/apply-template", `{"messages":[{"role":"assistant","content":""}]}`, 400, "messages")
}

// Biases by id, by text and by false, beside others that have none: each answer
// is that of the same request alone.
func TestRealBias(t *testing.T) {
	s := newRealSite(t, Config{}, engine.LoopConfig{}, nil)
	bodies := []string{
		`{"prompt":"Once upon a time","max_tokens":12,"temperature":1,"n":3,"seed":1,"logit_bias":{",":-100,"5":2}}`,
		`{"prompt":"Once upon a time","max_tokens":12,"temperature":1,"n":3,"seed":1,"logit_bias":[[",",false],["-5",1]]}`,
		`{"prompt":"Once upon a time","max_tokens":12,"temperature":1,"n":3,"seed":1}`,
	}
	type texts struct{ Choices []struct{ Text string } }
	alone := map[string]string{}
	for _, body := range bodies {
		alone[body] = fmt.Sprint(post[texts](s, "/v1/completions", body))
	}
	if alone[bodies[0]] == alone[bodies[2]] {
		t.Errorf("the biases change nothing: %v", alone)
	}
	var wg sync.WaitGroup
	for range 3 {
		for _, body := range bodies {
			wg.Go(func() {
				if got := fmt.Sprint(post[texts](s, "/v1/completions", body)); got != alone[body] {
					t.Errorf("%s: %s among others, %s alone", body, got, alone[body])
				}
			})
		}
	}
	wg.Wait()
	for _, bias := range []string{`{"-5":3}`, `{"99999999999999999999":3}`, `{"100000":3}`, `[[-5,3]]`, `[[100000,3]]`} {
		s.refused("/v1/completions", `{"prompt":"x","logit_bias":`+bias+`}`, 400, "logit_bias")
	}
}
