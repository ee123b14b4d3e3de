package anthropic_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/anthropic"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// claude is an answer of /v1/messages as a test reads it.
type claude struct {
	ID, Type, Role, Model string
	Content               []struct{ Type, Text, Thinking, Signature string }
	StopReason            string  `json:"stop_reason"`
	StopSequence          *string `json:"stop_sequence"`
	Usage                 struct {
		Input    int `json:"input_tokens"`
		Creation int `json:"cache_creation_input_tokens"`
		Read     int `json:"cache_read_input_tokens"`
		Output   int `json:"output_tokens"`
	}
}

const ask1 = fake.Hi + `,"max_tokens":100`

func TestAnthropicWhole(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "<think>Hm.</think>Hello world", nil)
	a := fake.Post[claude](s, "/v1/messages?beta=true", `{`+ask1+`,"model":"claude-any"}`)
	if a.Type != "message" || a.Role != "assistant" || a.Model != "fake/model" || !strings.HasPrefix(a.ID, "msg_") ||
		a.StopReason != "end_turn" || a.StopSequence != nil {
		t.Errorf("%+v", a)
	}
	if len(a.Content) != 2 || a.Content[0].Type != "thinking" || a.Content[0].Thinking != "Hm." ||
		a.Content[0].Signature == "" || a.Content[1].Type != "text" || a.Content[1].Text != "Hello world" {
		t.Errorf("content %+v", a.Content)
	}
	if n := len(s.Last().Prompt); a.Usage.Read != 4 || a.Usage.Input != n-4 || a.Usage.Creation != 0 ||
		a.Usage.Output == 0 {
		t.Errorf("usage %+v of a prompt of %d", a.Usage, n)
	}
	count := fake.Post[struct {
		Input int `json:"input_tokens"`
	}](s, "/v1/messages/count_tokens?beta=true", `{`+fake.Hi+`}`)
	if n := len(s.Last().Prompt); count.Input != n {
		t.Errorf("counted %d tokens of %d", count.Input, n)
	}
	for body, want := range map[string]string{
		`"max_tokens":3,"messages":[{"role":"user","content":"hi"}]`: "max_tokens",
		ask1 + `,"stop_sequences":["wor"]`:                           "stop_sequence wor",
	} {
		a := fake.Post[claude](s, "/v1/messages", `{`+body+`}`)
		got := a.StopReason
		if a.StopSequence != nil {
			got += " " + *a.StopSequence
		}
		if got != want {
			t.Errorf("%s: stopped by %q, want %q", body, got, want)
		}
	}
}

// A stream has Anthropic's events in their order, each block begun and ended, and the
// blocks are those of the whole answer.
func TestAnthropicStream(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "<think>Hm.</think>Hello world", nil)
	var types, deltas []string
	text := map[string]string{}
	for _, data := range s.NamedEvents("/v1/messages", `{`+ask1+`,"stream":true}`) {
		e := fake.Parse[struct {
			Type    string
			Index   int
			Message claude
			Delta   struct {
				Type, Text, Thinking, Signature string
				StopReason                      string `json:"stop_reason"`
			}
			Usage *struct {
				Read   int `json:"cache_read_input_tokens"`
				Output int `json:"output_tokens"`
			}
		}](t, []byte(data))
		if len(types) == 0 || types[len(types)-1] != e.Type {
			types = append(types, e.Type)
		}
		switch e.Type {
		case "message_start":
			if e.Message.Usage.Read != 4 || e.Message.ID == "" || e.Message.Content == nil {
				t.Errorf("it begins with %s", data)
			}
		case "content_block_delta":
			deltas = append(deltas, fmt.Sprint(e.Index, e.Delta.Type))
			text[e.Delta.Type] += e.Delta.Text + e.Delta.Thinking + e.Delta.Signature
		case "message_delta":
			if e.Delta.StopReason != "end_turn" || e.Usage == nil || e.Usage.Output == 0 || e.Usage.Read != 4 {
				t.Errorf("it ends with %s", data)
			}
		}
	}
	block := []string{"content_block_start", "content_block_delta", "content_block_stop"}
	if want := slices.Concat([]string{"message_start"}, block, block,
		[]string{"message_delta", "message_stop"}); !slices.Equal(types, want) {
		t.Errorf("events %q, want %q", types, want)
	}
	if want := []string{"0thinking_delta", "0signature_delta", "1text_delta"}; !slices.Equal(slices.Compact(deltas),
		want) {
		t.Errorf("deltas %q, want %q", deltas, want)
	}
	if text["text_delta"] != "Hello world" || text["thinking_delta"] != "Hm." ||
		text["signature_delta"] != anthropic.Signature("Hm.") {
		t.Errorf("texts %q", text)
	}
}

// Conversations of all blocks become those that templates have.
func TestAnthropicConversation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body, want string }{
		{"blocks", `{"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"Be kind."}],
			"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`,
			"system: Be brief.|Be kind.; user: a|b"},
		{"a call and its results", `{"messages":[
			{"role":"user","content":"what time"},
			{"role":"assistant","content":[{"type":"thinking","thinking":"A clock.","signature":"x"},{"type":"redacted_thinking","data":"zzz"},{"type":"text","text":"I look."},
				{"type":"tool_use","id":"t1","name":"clock","input":{"zone": "UTC"}},{"type":"tool_use","id":"t2","name":"date","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"12:00"},
				{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"Mon"},{"type":"text","text":"day"}],"is_error":false},
				{"type":"tool_result","tool_use_id":"t2"},{"type":"text","text":"go on"}]}]}`,
			`user: what time; assistant (A clock.): I look. [t1 clock {"zone": "UTC"}] [t2 date {}]; tool t1 clock: 12:00; tool t2 date: Mon|day; tool t2 date: ; user: go on`},
		{"turns of one role", `{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"},{"role":"assistant","content":"c"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]}]}`,
			"user: a|b; assistant: c [1 f {}]"},
		{"system within", `{"system":"s","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},{"role":"system","content":"9 tokens left"}]}`,
			"system: s; user: a; assistant: b; user: c|9 tokens left"},
		{"a document", `{"messages":[{"role":"user","content":[{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"D"}}]}]}`,
			"user: <document name=\"T\">\nD\n</document>\n"},
		{"a document with a context", `{"messages":[{"role":"user","content":[{"type":"document","title":"a \"T\"\n","context":"C","citations":{"enabled":false},"source":{"type":"text","data":"D"}}]}]}`,
			"user: <document name=\"a 'T'\">\n<context>\nC\n</context>\nD\n</document>\n"},
		{"a document of blocks", `{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":[{"type":"text","text":"D"},{"type":"text","text":"E"}]}}]}]}`,
			"user: <document>\n|D|E|</document>\n"},
		{"a document of one text", `{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":"D"}}]}]}`,
			"user: <document>\n|D|</document>\n"},
		{"attribution as a block", `{"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.37.0d9; cch=fa690;"},{"type":"text","text":"You are."}],"messages":[{"role":"user","content":"a"}]}`,
			"system: You are.; user: a"},
		{"attribution as a line", `{"system":"x-anthropic-billing-header: cch=1;\nYou are.","messages":[{"role":"user","content":"a"}]}`,
			"system: You are.; user: a"},
	} {
		conversation, err := anthropic.Converse([]byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := fake.Shown(conversation); got != c.want {
			t.Errorf("%s: got\n%s, want\n%s", c.name, got, c.want)
		}
	}
}

// Errors have Anthropic's form and types, and the header an id.
func TestAnthropicErrors(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	for body, want := range map[string]string{
		`{}`: "missing",
		`{"messages":[{"role":"user","content":"x"}]}`:                                                                                                   "max_tokens: missing",
		`{"max_tokens":5,"messages":[]}`:                                                                                                                 "messages: empty",
		`{"max_tokens":5,"messages":[{"role":"robot","content":"x"}]}`:                                                                                   "messages: message 0: role",
		`{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64"}}]}]}`:                                          "messages: message 0: content: block 0: source: of type base64, and empty",
		`{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","data":"JVBERi0xLjQK"}}]}]}`:                 "PDF: not a document that can be read: damaged: no pages are found in it",
		`{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"aGk="}}]}]}`:                            "fake/model reads text only, and the request has a picture: want a model that sees",
		`{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"x"}}]}]}`:                                               `source: type: the string "x", want base64, url or file`,
		`{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"http://x/y"}}]}]}`:                       "document 1 of 1: a URL of",
		`{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"document","citations":{"enabled":true},"source":{"type":"text","data":"D"}}]}]}`: "block 0: citations: enabled is true, and answers of this server cite nothing",
		`{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text"}}]}]}`:                                         "block 0: source: of type text, and empty",
		`{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"x"}}]}]}`:                                            "want base64, text, content, url or file",
		`{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"text"}]}]}`:                                                                      "text: missing",
		`{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":5}]}]}`:                                                             "message 0",
		`{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"tool_result"}]}]}`:                                                               "tool_use_id: missing",
		`{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":5}]}]}`:                                 "content: 5",
		`{"max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":5}]}]}`:                               "input: 5",
		`{"max_tokens":5,"messages":[{"role":"user","content":` + nestedResults(2) +
			`}]}`: "block 0: content: block 0: a tool_result within a result",
		`{"max_tokens":5,"messages":[{"role":"user","content":` + nestedResults(5000) +
			`}]}`: "nests more than 64 levels deep",
		`{"max_tokens":5,"messages":[{"role":"user","content":[]}]}`:                                 "without text",
		`{` + ask1 + `,"thinking":{}}`:                                                               "thinking: type: missing",
		`{` + ask1 + `,"thinking":{"type":"enabled","budget_tokens":0}}`:                             "thinking: budget_tokens",
		`{` + ask1 + `,"tools":[{"name":"f"}]}`:                                                      "tools: element 0: input_schema: missing",
		`{` + ask1 + `,"tools":[{"type":"code_execution_20250825","name":"code_execution"}]}`:        "tools: element 0: type: \"code_execution_20250825\"",
		`{` + ask1 + `,"tool_choice":{"type":"tool"}}`:                                               "tool_choice: name: missing",
		`{` + ask1 + `,"metadata":5}`:                                                                "metadata: 5",
		`{` + ask1 + `,"output_config":{"effort":"none at all"}}`:                                    "output_config: effort",
		`{` + ask1 + `,"temperature":"hot"}`:                                                         "temperature",
		`{"max_tokens":5,"messages":[{"role":"user","content":"` + strings.Repeat("x", 600) + `"}]}`: "tokens > 512 maximum",
	} {
		status, b, h := s.Do("POST", "/v1/messages", body)
		e := fake.Parse[failure](t, b)
		if status != 400 || e.Type != "error" || e.Error.Type != "invalid_request_error" ||
			!strings.Contains(e.Error.Message, want) {
			t.Errorf("%.200s: %d %s, want %q", body, status, b, want)
		}
		if id := h.Get("Request-Id"); id == "" || id != e.Request {
			t.Errorf("%.200s: request %q in the header, %q in the body", body, id, e.Request)
		}
	}
	for _, c := range []struct {
		err    error
		status int
		kind   string
	}{
		{&engine.BusyError{Queued: 3, RetryAfter: time.Second}, 429, "rate_limit_error"},
		{engine.ErrClosing, 503, "overloaded_error"},
		{engine.ErrDeadline, 504, "timeout_error"},
		{fmt.Errorf("secret"), 500, "api_error"},
	} {
		s.Err = c.err
		status, b, _ := s.Do("POST", "/v1/messages", `{`+ask1+`}`)
		if e := fake.Parse[failure](t, b); status != c.status || e.Error.Type != c.kind ||
			strings.Contains(e.Error.Message, "secret") {
			t.Errorf("%v: %d %s, want %d %s", c.err, status, b, c.status, c.kind)
		}
	}
	s.Err, s.Ends = nil, engine.ErrClosing
	events := s.NamedEvents("/v1/messages", `{`+ask1+`,"stream":true}`)
	if e := fake.Parse[failure](t, []byte(events[len(events)-1])); e.Type != "error" ||
		e.Error.Type != "overloaded_error" || e.Request == "" {
		t.Errorf("a stream that fails ends with %s", events[len(events)-1])
	}
}

// Silence has an event of Anthropic's own.
func TestAnthropicPing(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, f *fake.Engine) {
		c.Ping, f.Delay = 10*time.Millisecond, 60*time.Millisecond
	})
	pings := 0
	for _, data := range s.NamedEvents("/v1/messages",
		`{"max_tokens":2,"messages":[{"role":"user","content":"hi"}],"stream":true}`) {
		if data == `{"type":"ping"}` {
			pings++
		}
	}
	if pings == 0 {
		t.Error("no ping in the silence")
	}
}

// What the model is told of thinking reaches its template.
func TestAnthropicThinking(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	for thinking, want := range map[string]bool{`{"type":"disabled"}`: true, `{"type":"adaptive"}`: false,
		`{"type":"enabled","budget_tokens":1024}`: false} {
		fake.Post[json.RawMessage](s, "/v1/messages", `{`+ask1+`,"thinking":`+thinking+`}`)
		if got := strings.Contains(s.LastPrompt(), "</think>"); got != want {
			t.Errorf("%s: the prompt %q", thinking, s.LastPrompt())
		}
	}
}

// nestedResults is content of results of tools, n deep.
func nestedResults(n int) string {
	return strings.Repeat(`[{"type":"tool_result","tool_use_id":"1","content":`, n) + `"x"` + strings.Repeat(`}]`, n)
}
