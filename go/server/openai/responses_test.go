package openai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/history"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/openai"
)

// resp is a response as a test reads it.
type resp struct {
	ID, Object, Status, Model string
	Background, Store         bool
	Previous                  string `json:"previous_response_id"`
	Metadata                  map[string]string
	Error                     *struct{ Code, Message string }
	Incomplete                *struct{ Reason string } `json:"incomplete_details"`
	Output                    []respItem
	Usage                     *struct {
		Input        int `json:"input_tokens"`
		InputDetails struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		Output        int `json:"output_tokens"`
		OutputDetails struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
		Total int `json:"total_tokens"`
	}
}

type respItem struct {
	ID, Type, Status, Role, Name, Namespace, Arguments, Input string
	CallID                                                    string `json:"call_id"`
	Content, Summary                                          []struct{ Type, Text string }
	Encrypted                                                 string `json:"encrypted_content"`
}

func (r resp) shown() string {
	var all []string
	for _, it := range r.Output {
		line := it.Type
		for _, p := range append(it.Content, it.Summary...) {
			line += " " + p.Type + " " + p.Text
		}
		if it.Name != "" {
			line += " " + it.Namespace + "/" + it.Name + " " + it.Arguments + it.Input
		}
		all = append(all, line)
	}
	return strings.Join(all, "; ")
}

func TestResponsesWhole(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "<think>Hm.</think>Hello world", nil)
	const body = `{"input":"hi","instructions":"Be brief.","metadata":{"a":"b"}`
	r := fake.Post[resp](s, "/v1/responses", body+`}`)
	if r.Object != "response" || !strings.HasPrefix(r.ID, "resp_") || r.Status != "completed" || r.Metadata["a"] != "b" ||
		!r.Store || r.Model != "fake/model" {
		t.Errorf("%+v", r)
	}
	if got, want := r.shown(), "reasoning reasoning_text Hm.; message output_text Hello world"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.Contains(s.LastPrompt(), "system\nBe brief.") {
		t.Errorf("prompt %q", s.LastPrompt())
	}
	if n := r.Usage.OutputDetails.Reasoning; n < len("<think>Hm.") || n > len("<think>Hm.</think>") {
		t.Errorf("%d tokens of reasoning", n)
	}
	if u := r.Usage; u.Input != len(s.Last().Prompt) || u.InputDetails.Cached != 4 || u.Total != u.Input+u.Output ||
		u.Output == 0 {
		t.Errorf("usage %+v", u)
	}
	count := fake.Post[tokenCount](s, "/v1/responses/input_tokens", body+`}`)
	if count.Tokens != r.Usage.Input {
		t.Errorf("counted %d, want %d", count.Tokens, r.Usage.Input)
	}
	summed := fake.Post[resp](s, "/v1/responses",
		body+`,"reasoning":{"summary":"auto","effort":"low"},"include":["reasoning.encrypted_content"]}`)
	if got, want := summed.shown(), "reasoning summary_text Hm.; message output_text Hello world"; got != want ||
		summed.Output[0].Encrypted != answer.Seal("Hm.") {
		t.Errorf("got %q, want %q; %+v", got, want, summed.Output[0])
	}
	if c := fake.Post[chatAnswer](s, "/v1/chat/completions",
		`{`+fake.Hi+`}`); c.Usage.Completion.ReasoningTokens != r.Usage.OutputDetails.Reasoning {
		t.Errorf("a chat has %d tokens of reasoning, a response %d", c.Usage.Completion.ReasoningTokens,
			r.Usage.OutputDetails.Reasoning)
	}
	cut := fake.Post[resp](s, "/v1/responses", `{"input":"hi","max_output_tokens":14}`)
	if cut.Status != "incomplete" || cut.Incomplete == nil || cut.Incomplete.Reason != "max_output_tokens" ||
		len(cut.Output) == 0 {
		t.Fatalf("cut: %+v", cut)
	}
	for i, it := range cut.Output { // what is before the item that was cut off is whole
		if want := i == len(cut.Output)-1; (it.Status == "incomplete") != want {
			t.Errorf("item %d of %d is %s", i, len(cut.Output), it.Status)
		}
	}
}

// A stream has OpenAI's events, numbered, and ends with what the whole answer is. The
// events of each item are those that clients put it together from.
func TestResponsesStream(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, reply, fields, want string }{
		{"thoughts and text", "<think>Hm.</think>Hello world", "",
			"created in_progress output_item.added content_part.added reasoning_text.delta reasoning_text.done " +
				"content_part.done output_item.done " +
				"output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done " +
				"completed"},
		{"a summary", "<think>Hm.</think>Hello", `,"reasoning":{"summary":"detailed"}`,
			"created in_progress output_item.added reasoning_summary_part.added reasoning_summary_text.delta " +
				"reasoning_summary_text.done reasoning_summary_part.done output_item.done " +
				"output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done " +
				"completed"},
		{"a call", "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {\"zone\": \"UTC\"}}\n</tool_call>",
			`,"tools":[{"type":"function","name":"get_time"}]`,
			"created in_progress output_item.added function_call_arguments.delta function_call_arguments.done " +
				"output_item.done completed"},
		{"a custom tool", "<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"*** Begin\\n\"}}\n</tool_call>",
			`,"tools":[{"type":"custom","name":"patch","format":{"type":"text"}}]`,
			"created in_progress output_item.added custom_tool_call_input.delta custom_tool_call_input.done output_item.done " +
				"completed"},
		{"an end", "Hello world", `,"max_output_tokens":2`,
			"created in_progress output_item.added content_part.added output_text.delta output_text.done content_part.done " +
				"output_item.done incomplete"},
	} {
		s := fake.New(t, c.reply, nil)
		var types []string
		deltas, texts := "", ""
		var items []respItem
		var last resp
		for i, data := range s.NamedEvents("/v1/responses", `{"input":"hi","stream":true`+c.fields+`}`) {
			e := fake.Parse[struct {
				Type                          string
				Sequence                      int  `json:"sequence_number"`
				Output                        *int `json:"output_index"`
				Delta, Text, Arguments, Input string
				Item                          respItem
				Response                      resp
			}](t, []byte(data))
			if e.Sequence != i {
				t.Errorf("%s: event %d has the number %d", c.name, i, e.Sequence)
			}
			if kind := strings.TrimPrefix(e.Type, "response."); len(types) == 0 || types[len(types)-1] != kind {
				types = append(types, kind)
			}
			if e.Output != nil && *e.Output != len(items) {
				t.Errorf("%s: %s, want the output index %d", c.name, data, len(items))
			}
			deltas += e.Delta
			texts += e.Text + e.Arguments + e.Input
			if e.Type == "response.output_item.done" {
				items = append(items, e.Item)
			}
			last = e.Response
		}
		if got := strings.Join(types, " "); got != c.want {
			t.Errorf("%s: events\n%s, want\n%s", c.name, got, c.want)
		}
		if deltas != texts || deltas == "" {
			t.Errorf("%s: pieces %q, wholes %q", c.name, deltas, texts)
		}
		whole := fake.Post[resp](s, "/v1/responses", `{"input":"hi"`+c.fields+`}`)
		if n := len(items) - 1; items[n].Status != whole.Output[n].Status || items[n].Status != whole.Status {
			t.Errorf("%s: the last item is %s, of the whole response %s", c.name, items[n].Status, whole.Output[n].Status)
		}
		if got := (resp{Output: items}).shown(); got != whole.shown() || last.shown() != got || last.Status != whole.Status ||
			last.Usage == nil {
			t.Errorf("%s: items %q, response %q, whole %q", c.name, got, last.shown(), whole.shown())
		}
	}
}

// Calls come back under the names that the client has for the tools, and go in again.
func TestResponsesTools(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "<tool_call>\n{\"name\": \"mcp__git__log\", \"arguments\": {\"n\": "+
		"3}}\n</tool_call>\n<tool_call>\n{\"name\": \"apply_patch\", \"arguments\": {\"input\": \"a\\nb\"}}\n</tool_call>",
		nil)
	const codex = `{"model":"any","instructions":"You are Codex.","input":[
		{"type":"message","role":"developer","content":[{"type":"input_text","text":"Sandboxed."}]},
		{"type":"message","role":"user","content":[{"type":"input_text","text":"Look."}]}],
		"tools":[{"type":"function","name":"exec_command","description":"Runs","strict":false,"parameters":{"type":"object","properties":{"cmd":{"type":"string"}}}},
			{"type":"custom","name":"apply_patch","description":"Patches","format":{"type":"grammar","syntax":"lark","definition":"start: /x/"}},
			{"type":"namespace","name":"mcp__git__","description":"Git","tools":[{"type":"function","name":"log","parameters":{"type":"object"}}]},
			{"type":"web_search","external_web_access":false},{"type":"image_generation","output_format":"png"},{"type":"tool_search","execution":"client","description":"d","parameters":{}}],
		"tool_choice":"auto","parallel_tool_calls":false,"reasoning":{"effort":"medium","summary":"auto"},"store":false,"include":["reasoning.encrypted_content"],
		"prompt_cache_key":"k","text":{"verbosity":"medium"},"client_metadata":{"x":"y"},"service_tier":null`
	r := fake.Post[resp](s, "/v1/responses", codex+`}`)
	if got, want := r.shown(), `function_call mcp__git__/log {"n": 3}; custom_tool_call /apply_patch a`+
		"\nb"; got != want || r.Output[0].CallID == "" || r.Store {
		t.Errorf("got %q, want %q", got, want)
	}
	if status, _, _ := s.Do("GET", "/v1/responses/"+r.ID, ""); status != 404 {
		t.Errorf("one that is not stored has status %d", status)
	}
	var items []string
	for _, it := range r.Output {
		raw, err := json.Marshal(map[string]string{"type": it.Type, "call_id": it.CallID, "name": it.Name,
			"namespace": it.Namespace, "arguments": it.Arguments, "input": it.Input})
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, string(raw), fmt.Sprintf(`{"type":"%s_output","call_id":%q,"output":"done"}`, it.Type,
			it.CallID))
	}
	body := `{"input":[{"role":"user","content":"a"},{"type":"reasoning","summary":[],"encrypted_content":"` + answer.Seal("Think.") + `"},{"type":"web_search_call","id":"x"},` + strings.Join(items, ",") + `]}`
	conversation, err := openai.Converse(t.Context(), history.New(1<<20, time.Hour), []byte(body), s.Model())
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`user: a; assistant (Think.):  [%s mcp__git__log {"n": 3}]; tool %s mcp__git__log: done; assistant:  [%s apply_patch {"input":"a\nb"}]; tool %s apply_patch: done`,
		r.Output[0].CallID, r.Output[0].CallID, r.Output[1].CallID, r.Output[1].CallID)
	if got := fake.Shown(conversation); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// A tool of a namespace is chosen with its namespace, or without where no other has its name.
func TestResponsesChoice(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "<tool_call>\n{\"name\": \"git__log\", \"arguments\": {}}\n</tool_call>", nil)
	const tools = `"tools":[{"type":"namespace","name":"git","tools":[{"type":"function","name":"log"},{"type":"function","name":"show"}]},
		{"type":"namespace","name":"web","tools":[{"type":"custom","name":"show"}]}]`
	for choice, want := range map[string]string{
		`{"type":"function","name":"log","namespace":"git"}`: "",
		`{"type":"function","name":"log","namespace":null}`:  "",
		`{"type":"function","name":"log"}`:                   "",
		`{"type":"function","name":"git__log"}`:              "",
		`{"type":"custom","name":"show","namespace":"web"}`:  "",
		`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"log","namespace":"git"},{"type":"custom","namespace":"web","name":"show"}]}`: "",
		`{"type":"function","name":"show"}`:                  `tool_choice: no tool has the name "show"`,
		`{"type":"function","name":"log","namespace":"web"}`: `tool_choice: no tool has the name "web__log"`,
		`{"type":"function","name":"log","namespace":7}`:     `tool_choice: namespace: 7, want a string`,
	} {
		for _, path := range []string{"/v1/responses", "/v1/responses/input_tokens"} {
			status, b, _ := s.Do("POST", path, `{"input":"x",`+tools+`,"tool_choice":`+choice+`}`)
			switch {
			case want == "" && status != 200, want != "" && (status != 400 || fake.ErrorOf(t, b).Message != want):
				t.Errorf("%s of %s: %d %s, want %q", choice, path, status, b, want)
			case want == "" && path == "/v1/responses" && strings.Contains(choice, "log"):
				if got := fake.Parse[resp](t, b).shown(); got != "function_call git/log {}" {
					t.Errorf("%s: %s", choice, got)
				}
			}
		}
	}
}

// Responses go on with those that are stored, whose items can be had.
func TestResponsesStored(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	first := fake.Post[resp](s, "/v1/responses", `{"input":"one","instructions":"Not kept."}`)
	second := fake.Post[resp](s, "/v1/responses", `{"input":"two","previous_response_id":"`+first.ID+`"}`)
	if p := s.LastPrompt(); !strings.Contains(p, "user\none") || !strings.Contains(p, "assistant\nHello") ||
		!strings.Contains(p, "user\ntwo") || strings.Contains(p, "Not kept") || second.Previous != first.ID {
		t.Errorf("prompt %q", p)
	}
	got := fake.Parse[resp](t, s.Get("/v1/responses/"+second.ID))
	if got.ID != second.ID || got.shown() != second.shown() || got.Status != "completed" {
		t.Errorf("stored %+v", got)
	}
	type list struct {
		Data []struct {
			ID, Type, Role string
			Content        json.RawMessage
		}
		More  bool   `json:"has_more"`
		First string `json:"first_id"`
		Last  string `json:"last_id"`
	}
	items := fake.Parse[list](t, s.Get("/v1/responses/"+second.ID+"/input_items?order=asc"))
	if len(items.Data) != 3 || items.Data[0].Role != "user" || items.Data[1].Role != "assistant" ||
		items.Data[1].ID != first.Output[0].ID || items.More || items.First != items.Data[0].ID {
		t.Errorf("items %+v", items)
	}
	page := fake.Parse[list](t, s.Get("/v1/responses/"+second.ID+"/input_items?limit=1&after="+items.Data[2].ID))
	if len(page.Data) != 1 || page.Data[0].ID != items.Data[1].ID || !page.More {
		t.Errorf("page %+v", page)
	}
	fake.Post[resp](s, "/v1/responses", `{"input":[{"type":"item_reference","id":"`+first.Output[0].ID+
		`"},{"role":"user","content":"three"}]}`)
	if p := s.LastPrompt(); !strings.Contains(p, "assistant\nHello") || strings.Contains(p, "user\none") {
		t.Errorf("prompt %q", p)
	}
	if status, b, _ := s.Do("DELETE", "/v1/responses/"+first.ID, ""); status != 200 ||
		!fake.Parse[deletion](t, b).Deleted {
		t.Errorf("deleted: %d %s", status, b)
	}
	if status, _, _ := s.Do("GET", "/v1/responses/"+first.ID, ""); status != 404 {
		t.Errorf("a deleted one has status %d", status)
	}
	fake.Post[resp](s, "/v1/responses", `{"input":"four","previous_response_id":"`+second.ID+`"}`)
	if p := s.LastPrompt(); !strings.Contains(p, "user\none") {
		t.Errorf("without its first response the conversation is %q", p)
	}
}

// A response in the background can be polled, and cancelled.
func TestResponsesBackground(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	queued := fake.Post[resp](s, "/v1/responses", `{"input":"x","background":true}`)
	if queued.Status != "in_progress" || !queued.Background || len(queued.Output) != 0 {
		t.Errorf("%+v", queued)
	}
	var done resp
	fake.Eventually(t, "done", func() bool {
		done = fake.Parse[resp](t, s.Get("/v1/responses/"+queued.ID))
		return done.Status == "completed"
	})
	if done.shown() != "message output_text Hello" || done.Usage == nil {
		t.Errorf("%+v", done)
	}
	if r := fake.Post[resp](s, "/v1/responses/"+queued.ID+"/cancel", ""); r.Status != "completed" {
		t.Errorf("one that has ended is %s after its cancellation", r.Status)
	}
	s.Delay = 20 * time.Millisecond
	running := fake.Post[resp](s, "/v1/responses", `{"input":"x","background":true,"ignore_eos":true}`)
	if status, b, _ := s.Do("POST", "/v1/responses",
		`{"input":"y","previous_response_id":"`+running.ID+`"}`); status != 400 ||
		!strings.Contains(string(b), "has not ended") {
		t.Errorf("one goes on with one that runs: %d %s", status, b)
	}
	if r := fake.Post[resp](s, "/v1/responses/"+running.ID+"/cancel", ""); r.Status != "cancelled" {
		t.Errorf("cancelled: %+v", r)
	}
	fake.Eventually(t, "ended", func() bool { return s.Active() == 0 })
	if r := fake.Parse[resp](t, s.Get("/v1/responses/"+running.ID)); r.Status != "cancelled" {
		t.Errorf("afterwards: %+v", r)
	}
	gone := fake.Post[resp](s, "/v1/responses", `{"input":"x","background":true,"ignore_eos":true}`)
	s.Do("DELETE", "/v1/responses/"+gone.ID, "")
	fake.Eventually(t, "ended", func() bool { return s.Active() == 0 })
	s.Delay, s.Ends = 0, engine.ErrClosing
	failed := fake.Post[resp](s, "/v1/responses", `{"input":"x","background":true}`)
	fake.Eventually(t, "failed", func() bool {
		return fake.Parse[resp](t,
			s.Get("/v1/responses/"+failed.ID)).Status == "failed"
	})
	if r := fake.Parse[resp](t, s.Get("/v1/responses/"+failed.ID)); r.Error == nil || r.Error.Code != "unavailable_error" {
		t.Errorf("failed: %+v", r.Error)
	}
	for _, r := range []resp{running, gone, failed} {
		s.Forgets(r.ID)
	}
}

// A response in the background whose answer cannot be made ends as failed, and no other with it. The log says why.
func TestResponsesBackgroundPanics(t *testing.T) {
	t.Parallel()
	var log fake.Log
	s := fake.Demo(t, fake.Setup{Server: server.Config{Log: zerolog.New(&log)}, Submitted: func(r *engine.Request) {
		if r.Sampling.Seed == 666 {
			r.Sink.(*answer.Sequence).Index = 7 // of one answer
		}
	}})
	const body = `{"input":"x","background":true,"max_output_tokens":2,"seed":`
	failed := fake.Post[resp](s, "/v1/responses", body+`666}`)
	fake.Eventually(t, "failed", func() bool {
		return fake.Parse[resp](t,
			s.Get("/v1/responses/"+failed.ID)).Status == "failed"
	})
	if r := fake.Parse[resp](t, s.Get("/v1/responses/"+failed.ID)); r.Error == nil || r.Error.Code != "server_error" ||
		strings.Contains(r.Error.Message, "range") {
		t.Errorf("failed: %+v", r.Error)
	}
	whole := fake.Post[resp](s, "/v1/responses", body+`1}`)
	fake.Eventually(t, "whole", func() bool {
		return fake.Parse[resp](t,
			s.Get("/v1/responses/"+whole.ID)).Status == "incomplete"
	})
	if text := log.String(); !strings.Contains(text, "Collect") || !strings.Contains(text, `"stack"`) ||
		!strings.Contains(text, "out of range") {
		t.Errorf("the log has %s", text)
	}
	s.Forgets(failed.ID)
	s.Forgets(whole.ID)
}

func TestResponsesErrors(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	stored := fake.Post[resp](s, "/v1/responses", `{"input":"x"}`)
	for body, want := range map[string]string{
		`{}`:                         "input: missing",
		`{"input":5}`:                "input: 5",
		`{"input":[5]}`:              "input: item 0: 5, want an object",
		`{"input":[]}`:               "input: without text",
		`{"input":[{"role":"cat"}]}`: "input: item 0: role",
		`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]}`:      "reads text only, and the request has a picture",
		`{"input":[{"type":"function_call","name":"f"}]}`:                                     "call_id: missing",
		`{"input":[{"type":"function_call_output"}]}`:                                         "call_id: missing",
		`{"input":[{"type":"dream"}]}`:                                                        "input: item 0: type: the string \"dream\"",
		`{"input":[{"type":"item_reference","id":"gone"}]}`:                                   "input: item 0: there is no item",
		`{"input":"x","previous_response_id":"resp_gone"}`:                                    "previous_response_id: there is no response",
		`{"input":"x","tools":[{"type":"file_search"}]}`:                                      `tools: tool 0: type: "file_search"`,
		`{"input":"x","tools":[{"type":"namespace","name":"a"}]}`:                             "tools: tool 0: tools: missing",
		`{"input":"x","tools":[{"type":"function"}]}`:                                         "tools: tool 0: name",
		`{"input":"x","tools":[{"type":"function","name":"f"},{"type":"custom","name":"f"}]}`: "a second tool",
		`{"input":"x","tool_choice":"required"}`:                                              "tool_choice: given without tools",
		`{"input":"x","include":["everything"]}`:                                              "include",
		`{"input":"x","top_logprobs":-1}`:                                                     "top_logprobs",
		`{"input":"x","background":true,"store":false}`:                                       "background",
		`{"input":"x","truncation":"middle"}`:                                                 "truncation",
		`{"input":"x","reasoning":{"effort":"huge"}}`:                                         "reasoning: effort",
		`{"input":"x","max_output_tokens":0}`:                                                 "max_output_tokens",
		`{"input":"x","conversation":"conv_1"}`:                                               "conversation",
		`{"input":"` + strings.Repeat("x", 600) +
			`"}`: "exceeds the available context size",
	} {
		status, b, _ := s.Do("POST", "/v1/responses", body)
		if e := fake.ErrorOf(t, b); status != 400 && status != 404 || !strings.Contains(e.Message, want) {
			t.Errorf("%.200s: %d %s, want %q", body, status, b, want)
		}
	}
	for path, want := range map[string]int{
		"GET /v1/responses/resp_none": 404, "DELETE /v1/responses/resp_none": 404, "POST /v1/responses/resp_none/cancel": 404,
		"GET /v1/responses/resp_none/input_items":     404,
		"POST /v1/responses/" + stored.ID + "/cancel": 400, "GET /v1/responses/" + stored.ID + "?stream=true": 400,
		"GET /v1/responses/" + stored.ID + "/input_items?limit=0":  400,
		"GET /v1/responses/" + stored.ID + "/input_items?order=up": 400,
		"GET /v1/responses/" + stored.ID + "/input_items?after=x":  400,
	} {
		method, at, _ := strings.Cut(path, " ")
		if status, b, _ := s.Do(method, at, ""); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, b, want)
		}
	}
	s.Ends = engine.ErrClosing
	events := s.NamedEvents("/v1/responses", `{"input":"x","stream":true}`)
	last := fake.Parse[struct {
		Type     string
		Response resp
	}](t, []byte(events[len(events)-1]))
	if last.Type != "response.failed" || last.Response.Status != "failed" || last.Response.Error == nil ||
		last.Response.Error.Message == "" {
		t.Errorf("a stream that fails ends with %s", events[len(events)-1])
	}
}

// What a response keeps of its request counts in the history.
func TestResponseSize(t *testing.T) {
	t.Parallel()
	r := openai.Response{User: new(strings.Repeat("u", 5000)), Tools: jsontext.Value(`["x"]`),
		Output: []history.Item{{ID: "a", Raw: jsontext.Value(`"x"`)}}}
	if got := r.Size(); got != 5005 || len(r.Items()) != 1 {
		t.Errorf("%d bytes, items %v", got, r.Items())
	}
}
