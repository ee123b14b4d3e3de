package openai_test

import (
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server/internal/fake"
)

const (
	withTools = fake.Hi + `,"tools":[` + fake.WeatherTool + `,` + fake.TimeTool + `]`
)

// A toolChunk is a chatChunk with calls as clients read it.
type toolChunk struct {
	Choices []struct {
		Delta struct {
			Content string
			Calls   []struct {
				Index    int
				ID, Type string
				Function struct{ Name, Arguments string }
				Custom   *struct{ Name, Input string }
			} `json:"tool_calls"`
			Call *struct{ Name, Arguments string } `json:"function_call"`
		}
		Finish *string `json:"finish_reason"`
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	s := fake.New(t, fake.Calls, nil)
	c := fake.Post[chatAnswer](s, "/v1/chat/completions", `{`+withTools+`}`).Choices[0]
	calls := c.Message.Calls
	if c.Finish != "tool_calls" || *c.Message.Content != "Let me see." || len(calls) != 2 {
		t.Fatalf("got %+v", c)
	}
	if calls[0].Function.Name != "get_weather" || calls[0].Function.Arguments != `{"place": "Rome"}` ||
		calls[0].Type != "function" ||
		calls[1].Function.Name != "get_time" || calls[1].Function.Arguments != "{}" || calls[0].ID == calls[1].ID ||
		calls[0].ID == "" {
		t.Errorf("calls %+v", calls)
	}
	content, names, args, finish := "", "", []string{"", ""}, ""
	for _, e := range s.Events("/v1/chat/completions", `{`+withTools+`,"stream":true}`) {
		if e == "[DONE]" {
			continue
		}
		c := fake.Parse[toolChunk](t, []byte(e)).Choices[0]
		content += c.Delta.Content
		for _, call := range c.Delta.Calls {
			if call.Function.Name != "" {
				names += call.Function.Name + " "
				if call.ID == "" || call.Type != "function" {
					t.Errorf("a call begins with %s", e)
				}
			}
			args[call.Index] += call.Function.Arguments
		}
		if c.Finish != nil {
			finish = *c.Finish
		}
	}
	if content != "Let me see." || names != "get_weather get_time " || args[0] != `{"place": "Rome"}` || args[1] != "{}" ||
		finish != "tool_calls" {
		t.Errorf("streamed: %q, %q, %q, %q", content, names, args, finish)
	}
	// Without tools it is text, and so it is where none may be called.
	for _, body := range []string{fake.Hi, withTools + `,"tool_choice":"none"`} {
		if c := fake.Post[chatAnswer](s, "/v1/chat/completions", `{`+body+`}`).Choices[0]; c.Finish != "stop" ||
			*c.Message.Content != fake.Calls || c.Message.Calls != nil {
			t.Errorf("%s: got %+v", body, c)
		}
	}
	// A call that the limit cuts off is not one that may be made.
	if c := fake.Post[chatAnswer](s, "/v1/chat/completions",
		`{`+withTools+`,"max_tokens":70}`).Choices[0]; c.Finish != "length" || c.Message.Calls[0].Function.Arguments == "{}" {
		t.Errorf("cut off: %+v", c)
	}
}

// The older form of tools and calls.
func TestFunctions(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>", nil)
	body := `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"function_call":{"name":"get_time","arguments":"{}"}},
		{"role":"function","name":"get_time","content":"noon"}],"functions":[{"name":"get_time"}]`
	c := fake.Post[chatAnswer](s, "/v1/chat/completions", body+`}`).Choices[0]
	if c.Finish != "function_call" || c.Message.Content != nil || c.Message.Calls != nil || c.Message.Call == nil ||
		c.Message.Call.Name != "get_time" {
		t.Errorf("got %+v", c)
	}
	name, finish := "", ""
	for _, e := range s.Events("/v1/chat/completions", body+`,"stream":true}`) {
		if e == "[DONE]" {
			continue
		}
		c := fake.Parse[toolChunk](t, []byte(e)).Choices[0]
		if c.Delta.Call != nil {
			name += c.Delta.Call.Name
		}
		if c.Finish != nil {
			finish = *c.Finish
		}
	}
	if name != "get_time" || finish != "function_call" {
		t.Errorf("streamed: %q, %q", name, finish)
	}
}

func TestWrongTools(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	for body, want := range map[string]string{
		`"tools":5`:    "tools: 5, want an array of tools",
		`"tools":[5]`:  "tools: element 0: 5, want an object",
		`"tools":[{}]`: "tools: element 0: function: missing",
		`"tools":[{"type":"function","function":{}}]`: "tools: element 0: function: name: missing",
		`"tools":[{"type":"function","function":{"name":"a b"}}]`: "tools: element 0: function: name: the " +
			"string \"a b\", want 1 to 128",
		`"tools":[{"type":"function","function":{"name":"a","parameters":[]}}]`: "tools: element 0: function: parameters: " +
			"an array, want a JSON schema",
		`"tools":[{"type":"function","function":{"name":"a","strict":1}}]`: "tools: element 0: function: strict: 1, want true or false",
		`"tools":[{"type":"web_search"}]`: "tools: element 0: type: " +
			"the server has no tools of the type",
		`"tools":[` + fake.TimeTool + `,` + fake.TimeTool +
			`]`: "tools: element 1: a second tool with the name",
		`"tools":[` + fake.TimeTool + `],"functions":[{"name":"b"}]`: "functions: given together with tools",
		`"tool_choice":"required"`:                                   "tool_choice: given without tools",
		`"tool_choice":"maybe"`: "tool_choice: the string \"maybe\", want one of " +
			"none, auto, required",
		`"tool_choice":{}`:                           "tool_choice: an object without the name",
		`"tool_choice":{"type":"custom","name":"x"}`: "tool_choice: given without tools",
		`"tool_choice":{"type":"mcp","name":"x"}`: "tool_choice: type: the string \"mcp\", want function, custom or " +
			"allowed_tools",
		`"tools":[` + fake.TimeTool + `],"tool_choice":{"type":"custom","custom":{"name":"x"}}`: "tool_choice: no tool has the name \"x\"",
		`"tools":[{"type":"custom"}]`:             "tools: element 0: custom: missing",
		`"tools":[{"type":"custom","custom":{}}]`: "tools: element 0: custom: name: missing",
		`"tools":[{"type":"custom","custom":5}]`:  "tools: element 0: custom: 5, want an object with a name",
		`"tools":[{"type":"custom","custom":{"name":5}}]`: "tools: element 0: custom: number at " +
			"\"/name\", want string",
		`"tools":[{"type":"custom","custom":{"name":"a b"}}]`:                                                                               "tools: element 0: custom: name: the string \"a b\", want 1 to 128",
		`"tools":[{"custom":{"name":"a"},"function":{"name":"b"}}]`:                                                                         "tools: element 0: function and custom in one tool",
		`"tools":[{"type":"custom","custom":{"name":"a","format":{"type":"xml"}}}]`:                                                         "tools: element 0: custom: format: type: the string \"xml\", want text or grammar",
		`"tools":[{"type":"custom","custom":{"name":"a","format":{"type":"grammar","grammar":{"syntax":"abnf","definition":"a"}}}}]`:        "tools: the tool \"a\": format: the syntax \"abnf\", want lark or regex",
		`"tools":[{"type":"custom","custom":{"name":"a","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: ("}}}}]`: "tools: the tool \"a\": format: ",
		`"tools":[` + fake.TimeTool + `],"tool_choice":{"function":{"name":"x"}}`:                                                           "tool_choice: no tool has the name \"x\"",
		`"tools":[` + fake.TimeTool + `],"tool_choice":{"type":"allowed_tools","tools":[]}`:                                                 "tool_choice: tools: missing or empty",
		`"functions":[{"name":"b"}],"function_call":{"name":"c"}`:                                                                           "function_call: no tool has the name \"c\"",
		`"functions":[{"name":"b"}],"function_call":{}`:                                                                                     "function_call: an object without a name",
		`"parallel_tool_calls":"yes"`: "parallel_tool_calls: the string \"yes\", want true or false",
	} {
		status, b, _ := s.Do("POST", "/v1/chat/completions", `{`+fake.Hi+`,`+body+`}`)
		e := fake.Parse[struct {
			Error struct{ Message, Param string }
		}](t, b).Error
		if status/100 == 2 || !strings.HasPrefix(e.Message, want) || !strings.HasPrefix(want, e.Param+":") || e.Param == "" {
			t.Errorf("%s: %d %s, want %s", body, status, b, want)
		}
	}
}
