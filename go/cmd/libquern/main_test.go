package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/internal/speechtest"
	"github.com/quern-llm/quern/go/querntest"
)

// A request becomes what the Go package has.
func TestRequest(t *testing.T) {
	t.Parallel()
	r, err := readRequest(`{"model": "x", "stream": true, "n": 1, "messages": [
		{"role": "developer", "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": "short."}]},
		{"role": "assistant", "content": null, "refusal": null, "reasoning_content": "hm",
			"tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
		{"role": "tool", "tool_call_id": "a", "content": "two"},
		{"role": "tool", "content": [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,UE5H"}}]}],
		"tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}],
		"tool_choice": {"type": "function", "function": {"name": "f"}}, "response_format": {"type": "text"},
		"temperature": 0.5, "top_k": 3, "seed": 18446744073709551615, "max_completion_tokens": 9, "stop": ["a", "b"],
		"logprobs": true, "top_logprobs": 2, "reasoning_budget": -1, "chat_template_kwargs": {"a": [1]}, "priority": -1}`)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r.Messages)
	want := `[{"role":"system","parts":[{"text":"Be"},{"text":"short."}]},` +
		`{"role":"assistant","parts":[{"reasoning":"hm"},{"call":{"id":"a","name":"f","arguments":"{\"x\": 1}"}}]},` +
		`{"role":"tool","parts":[{"result":{"id":"a","name":"","text":"two"}}]},` +
		`{"role":"tool","parts":[{"result":{"id":"","name":"","text":"","parts":[{"text":"x"},{"image":"UE5H"}]}}]}]`
	if err != nil || string(b) != want {
		t.Errorf("the messages are %s, want %s: %v", b, want, err)
	}
	switch {
	case len(r.Tools) != 1 || r.Tools[0].Name != "f" || string(r.Tools[0].Parameters) != `{"type": "object"}`:
		t.Errorf("the tools are %v", r.Tools)
	case *r.Temperature != 0.5 || *r.TopK != 3 || *r.Seed != 1<<64-1 || r.TopP != nil:
		t.Errorf("the sampling is %v %v %v %v", *r.Temperature, *r.TopK, *r.Seed, r.TopP)
	case r.MaxTokens != 9 || len(r.Stop) != 2 || *r.TopLogprobs != 2 || r.ReasoningTokens != nil || r.Priority != -1:
		t.Errorf("the request is %+v", r)
	case r.Format != nil || len(r.TemplateValues) != 1:
		t.Errorf("the request is %+v", r)
	}
	for text, format := range map[string]bool{
		`{"prompt": "", "stop": null}`:                                        false,
		`{"prompt": "x", "response_format": {"type": "json_object"}}`:         true,
		`{"prompt": "x", "structured_outputs": {"regex": "a+", "json":null}}`: true,
	} {
		if r, err := readRequest(text); err != nil || (r.Format != nil) != format {
			t.Errorf("%s: %v %v", text, r.Format, err)
		}
	}
}

// What is wrong is said in a line, whatever it is.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                               "want a JSON object",
		`[]`:                             "want a JSON object",
		`{"prompt": "x"`:                 "not JSON: unexpected EOF",
		`{"prompt": "x"} x`:              "goes on",
		`{"prompt": "x", "stream_": 1}`:  `no field "stream_"`,
		`{"prompt": 5}`:                  "prompt is a number",
		`{"prompt": "x", "seed": -1}`:    "seed is a number -1",
		`{"prompt": "x", "top_k": 1e99}`: "top_k is a number 1e99",
		`{"messages": 5}`:                "messages is a number",
		`{"messages": [5]}`:              "messages[0]: ",
		`{"messages": [{"role": "user", "content": 5}]}`:                                              "messages[0]: content must be",
		`{"prompt": "x", "stop": {}}`:                                                                 "want a text or a list of texts",
		`{"prompt": "x", "tool_choice": {}}`:                                                          "tool_choice: {}",
		`{"prompt": "x", "tools": [{"type": "web"}]}`:                                                 `tools[0]: type: "web"`,
		`{"prompt": "x", "max_tokens": -1}`:                                                           "max_tokens: -1",
		`{"prompt": "x", "response_format": {"type": "json_schema"}}`:                                 "schema: missing",
		`{"prompt": "x", "response_format": {"type": "json_schema", "json_schema": {"schema":null}}}`: "schema: missing",
		`{"prompt": "x", "structured_outputs": {"regex": "a", "choice": ["b"]}}`:                      "2 formats",
		`{"prompt": ` + strings.Repeat("[", 100_000):                                                  "not JSON",
	} {
		_, err := readRequest(text)
		if err == nil || !strings.Contains(err.Error(), want) || codeOf(err) != codeInvalid || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80s: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"draft": 5}`: "draft: 5", `{"threads": "x"}`: "threads is a string", `{"kv_types": {"key": "f16"}}`: `no field "key"`,
	} {
		if _, _, err := readOptions(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{`{}`, `{"input": []}`, `{"input": 5}`, `{"input": [5]}`} {
		if _, err := readTexts(text); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// Sound becomes segments and a transcript, and what is no sound an error.
func TestTranscript(t *testing.T) {
	t.Parallel()
	made, err := speechtest.GGUF("../../transcribe/testdata/checkpoint", "f16", speechtest.Exclaims)
	if err != nil {
		t.Fatal(err)
	}
	m, err := quern.Open(t.Context(), "speech", quern.WithReaderAt(bytes.NewReader(made), int64(len(made))), quern.WithThreads(1))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	events := func(text string) (all []string, err error) {
		talk, err := readTalk(nil, text)
		if err != nil {
			return nil, err
		}
		for event, err := range talk(t.Context(), m) {
			if err != nil {
				return all, err
			}
			all = append(all, string(event))
		}
		return all, nil
	}
	sound := base64.StdEncoding.EncodeToString(speechtest.WAV(2 * 16000))
	all, err := events(`{"audio": "` + sound + `", "language": "de", "temperature": 0}`)
	if err != nil || len(all) < 3 || !strings.HasPrefix(all[0], `{"type":"segment","start":0,`) ||
		!strings.HasPrefix(all[len(all)-1], `{"type":"transcript","text":"!!`) || !strings.Contains(all[len(all)-1], `"language":"de"`) {
		t.Errorf("%s, %v", all, err)
	}
	for text, want := range map[string]string{
		`{"audio": "?"}`: "base64", `{"audio": 5}`: "base64", `{"audio": "aGVsbG8="}`: "audio: ",
		`{"audio": "` + sound + `", "language": "Klingon"}`: "language: ", `{"audio": "", "messages": []}`: "no field",
	} {
		if all, err := events(text); err == nil || codeOf(err) != codeInvalid || !strings.Contains(inFields.Replace(err.Error()), want) {
			t.Errorf("%.80s: %s, %v; want %s", text, all, err, want)
		}
	}
}

// What is wrong with options is said in their own words.
func TestWords(t *testing.T) {
	t.Parallel()
	for field, text := range map[string]string{
		"context_length": `{"context_length": 1000000000000}`, "parallel": `{"parallel": 5000}`, "queue": `{"queue": -1}`,
		"kv_types": `{"kv_types": {"keys": "f7", "values": "f16"}}`, "threads": `{"threads": -1}`,
	} {
		options, _, err := readOptions(text)
		if err != nil {
			t.Fatal(err)
		}
		m, err := quern.Open(t.Context(), quern.Demo, options...)
		if err == nil {
			m.Close()
			t.Errorf("%s is taken", text)
			continue
		}
		if said := inFields.Replace(err.Error()); !strings.Contains(said, field) || strings.Contains(said, "With") || codeOf(err) != codeInvalid {
			t.Errorf("%s: %s", text, said)
		}
	}
}

// Everything at a time, and the model closed under it: each call ends, and no handle is left.
func TestClose(t *testing.T) {
	t.Parallel()
	var h handles
	d, err := quern.NewDevice(quern.DeviceConfig{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	on := h.add(&device{d})
	for round := range 5 {
		model, err := h.open(quern.Demo, nil, on)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				for {
					s, err := h.beginSession(model, `{"max_tokens": 20}`)
					if err != nil {
						return
					}
					of, text := model, `{"prompt": "Once", "max_tokens": 20}`
					if i%2 == 0 {
						of, text = s, `{"messages": [{"role": "user", "content": "Once"}]}`
					}
					m, in, err := h.talker(of)
					if err != nil {
						return
					}
					talk, err := readTalk(in, text)
					if err != nil {
						t.Error(err)
						return
					}
					call, err := h.chat(m, in, talk)
					if err != nil {
						return
					}
					for {
						c, err := h.call(call)
						if err != nil {
							break
						}
						if event, err := c.next(-1); event == nil || err != nil {
							break
						}
					}
					h.cancel(model)
					h.close(call)
				}
			})
		}
		m, err := h.model(model)
		if err != nil {
			t.Fatal(err)
		}
		<-m.opening.done
		closed := model
		if round == 4 {
			closed = on // and all that is on it
		}
		if err := h.close(closed); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if want := map[bool]int{true: 0, false: 1}[round == 4]; len(h.named) != want {
			t.Errorf("%d handles are left, want %d", len(h.named), want)
		}
	}
}

// A panic is an error of the call.
func TestPanic(t *testing.T) {
	t.Parallel()
	c := begin(context.Background(), 0, func(context.Context, *call) error { panic("no") })
	if event, err := c.next(-1); event != nil || err == nil || codeOf(err) != codeInternal || !strings.Contains(err.Error(), "no") {
		t.Errorf("%s %v", event, err)
	}
}

// Each kind of error has its code.
func TestCodes(t *testing.T) {
	t.Parallel()
	for err, code := range map[error]int{
		quern.ErrInvalid: codeInvalid, quern.ErrClosed: codeClosed, quern.ErrContextFull: codeContextFull,
		quern.ErrMemory: codeMemory, quern.ErrBusy: codeBusy, quern.ErrUnsupported: codeUnsupported, quern.ErrFile: codeFile,
		quern.ErrInternal: codeInternal, errors.New("x"): codeInternal,
	} {
		if got := codeOf(err); got != code {
			t.Errorf("%v has the code %d, want %d", err, got, code)
		}
	}
}

// An agent in JSON: what comes out, a message of the assistant with a call, goes in with the result of the tool.
func TestTools(t *testing.T) {
	t.Parallel()
	m := &model{opened: querntest.Agent(t, `{"city": "Rome"}`, `{"celsius": 21}`), calls: map[*call]int64{}}
	m.opening = begin(context.Background(), 0, func(context.Context, *call) error { return nil })
	var h handles
	messages := []string{`{"role": "user", "content": "How warm is it in Rome?"}`}
	for round, want := range []string{"weather", "convert", ""} {
		r, err := readRequest(`{"messages": [` + strings.Join(messages, ",") + `], "tools": [
			{"type": "function", "function": {"name": "weather", "parameters":
				{"type": "object", "properties": {"city": {"type": "string"}}}}},
			{"type": "function", "function": {"name": "convert", "parameters":
				{"type": "object", "properties": {"celsius": {"type": "number"}}}}}]}`)
		if err != nil {
			t.Fatal(err)
		}
		handle, err := h.chat(m, nil, func(ctx context.Context, open *quern.Model) iter.Seq2[[]byte, error] {
			return encoded(open.Chat(ctx, r))
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := h.call(handle)
		if err != nil {
			t.Fatal(err)
		}
		var last struct {
			Type         string
			ToolCall     *chat.ToolCall `json:"tool_call"`
			Message      json.RawMessage
			FinishReason string `json:"finish_reason"`
		}
		var called []chat.ToolCall
		for {
			event, err := c.next(-1)
			if err != nil {
				t.Fatal(err)
			}
			if event == nil {
				break
			}
			last.ToolCall = nil
			if err := json.Unmarshal(event, &last); err != nil {
				t.Fatalf("%s: %v", event, err)
			}
			if last.ToolCall != nil {
				called = append(called, *last.ToolCall)
			}
		}
		messages = append(messages, string(last.Message))
		if want == "" {
			if len(called) > 0 || last.FinishReason != "stop" || !strings.Contains(string(last.Message), querntest.Answer) {
				t.Errorf("round %d: %v, %s: %s", round, called, last.FinishReason, last.Message)
			}
			break
		}
		if len(called) != 1 || called[0].Function.Name != want || last.FinishReason != "tool_calls" {
			t.Fatalf("round %d: %v, %s: %s", round, called, last.FinishReason, last.Message)
		}
		result, err := json.Marshal(map[string]string{
			"role": "tool", "tool_call_id": called[0].ID,
			"content": map[string]string{"weather": querntest.Celsius, "convert": querntest.Fahrenheit}[want],
		})
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, string(result))
	}
}
