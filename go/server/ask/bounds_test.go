package ask_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/reply"
)

// list is an array of n times the same JSON.
func list(n int, one string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]"
}

// numbered is an array of n texts of JSON with a number each.
func numbered(n int, format string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// read reads a body into the fields of a chat, and returns what it says.
func read(body string) (ask.Options, ask.Conversation, error) {
	m := &ask.Model{Sampling: sample.Defaults()}
	o, c := ask.NewOptions(m), ask.NewConversation()
	var prompts ask.Prompts
	fields := append(append(o.Fields(), c.Fields()...), ask.PromptField(&prompts), ask.NProbs(&o), ask.ResponseFormat(&o.Form))
	return o, c, field.ReadSome([]byte(body), fields)
}

func readPrompts(body string, p *ask.Prompts) error {
	return field.ReadSome([]byte(`{"prompt":`+body+`}`), []field.Field{ask.PromptField(p)})
}

// What is at a bound is taken, and what is above it is refused in words that say the bound and the element.
func TestBounds(t *testing.T) {
	t.Parallel()
	text := func(n int) string { return `"` + strings.Repeat("a", n) + `"` }
	function := func(name string) string { return `{"type":"function","function":{"name":` + name + `}}` }
	for _, tt := range []struct{ field, fits, exceeds, want string }{
		{"stop", list(64, `"x"`), list(65, `"x"`), "stop: 65 strings, want at most 64"},
		{"dry_sequence_breakers", list(32, `"x"`), list(33, `"x"`), "dry_sequence_breakers: more than 32, want an array of at most 32 texts of 1 to 40 bytes"},
		{"dry_sequence_breakers", `[` + text(40) + `]`, `["x",` + text(41) + `]`, "dry_sequence_breakers: element 1 has 41 bytes, want an array of at most 32 texts of 1 to 40 bytes"},
		{"samplers", text(0), `"q"`, `samplers: 'q' is no sampler, want an array of names`},
		{"samplers", `"` + strings.Repeat("k", 32) + `"`, list(33, `"top_k"`), "samplers: 33 samplers, want at most 32"},
		{"prompt", list(128, `"x"`), list(129, `"x"`), "prompt: 129 prompts, want at most 128"},
		{"prompt", list(128, `[1,"x"]`), list(129, `[1]`), "prompt: 129 prompts, want at most 128"},
		{"prompt", `[0,2147483647,"x"]`, `[2147483648]`, "prompt: element 0: 2147483648, want an integer from 0 to 2147483647"},
		{"prompt", `["x",[1]]`, `["x",[1],2]`, "prompt: token ids beside prompts"},
		{"prompt", `["x"]`, `[]`, "prompt: empty, want a string, an array"},
		{"prompt", `[["x"]]`, `[[]]`, "prompt: element 0: empty, want a string, an array"},
		{"prompt", `[[1,"x"]]`, `[[1,true]]`, "prompt: element 0: element 1: true, want a token id or a string"},
		{"prompt", `{"prompt_string":"x","multimodal_data":[]}`, `{"prompt":"x"}`, "prompt: an object without prompt_string"},
		{"prompt", `{"prompt_string":"x","multimodal_data":null}`, `{"prompt_string":"x","multimodal_data":["y"]}`, "prompt: multimodal_data: 1 files, and prompt_string has the marker that /props tells as media_marker 0 times, want as many"},
		{"prompt", `[{"prompt_string":"x"}]`, `{"prompt_string":5}`, "prompt: prompt_string: 5, want a string"},
		{"logit_bias", `[[2147483647,-1e6],["a",false]]`, `[[2147483648,1]]`, "logit_bias: 2147483648, want an integer from 0 to 2147483647"},
		{"logit_bias", `{"+7":1e6,"-":1,"":1}`, `{"7":1000001}`, "logit_bias: 1000001, want a number from -1000000 to 1000000"},
		{"logit_bias", `[[1,2]]`, `[[1]]`, "logit_bias: an array of 1, want an object such as"},
		{"logit_bias", `[["a",2]]`, `[[1,2,3]]`, "logit_bias: 3, want an object such as"},
		{"logit_bias", `{"2147483647":1}`, `{"2147483648":1}`, `logit_bias: token "2147483648" is not in the vocabulary, want a token id or a text`},
		{"logit_bias", `{"0":1,"- 5":1}`, `{"-5":1}`, `logit_bias: token "-5" is not in the vocabulary, want a token id or a text`},
		{"lora", numbered(64, `{"id":%d}`), numbered(65, `{"id":%d}`), "lora: more than 64 adapters, want at most so many"},
		{"lora", `[{"id":1048576,"scale":-1e6}]`, `[{"id":1048577}]`, "lora: id: 1048577, want an integer from 0 to 1048576"},
		{"lora", `[{"id":0,"scale":1e6,"more":[]}]`, `[{"id":0,"scale":1000001}]`, "lora: scale: 1000001, want a number from -1000000 to 1000000"},
		{"lora", `[{"id":0},{"id":1}]`, `[{"id":1},{"id":1}]`, "lora: id 1 twice, want each adapter once"},
		{"lora", `[]`, `[{"scale":1}]`, "lora: an object without id, want an array such as"},
		{"guided_choice", `["a"]`, `[]`, "guided_choice: 0 choices, want 1 to 65536"},
		{"guided_choice", list(65536, `"a"`), list(65537, `"a"`), "guided_choice: 65537 choices, want 1 to 65536"},
		{"guided_choice", `[` + text(1<<19) + `,` + text(1<<19) + `]`, `[` + text(1<<19) + `,` + text(1<<19+1) + `]`, "guided_choice: the choices have 1048577 bytes, want at most 1048576"},
		{"grammar_triggers", list(256, `{"type":"word","value":"a"}`), list(257, `{"type":"word","value":"a"}`), "grammar_triggers: more than 256 triggers"},
		{"grammar_triggers", `[{"type":3,"value":` + text(64<<10) + `}]`, `[{"type":1,"value":` + text(64<<10+1) + `}]`, "grammar_triggers: element 0: value: 65537 bytes, want at most 65536"},
		{"grammar_triggers", `[{"type":0,"token":0},{"type":"token","token":2147483647}]`, `[{"type":0,"token":2147483648}]`, "grammar_triggers: element 0: token: 2147483648, want an integer from 0 to 2147483647"},
		{"grammar_triggers", `[{"type":"pattern_full","value":"a"}]`, `[{"type":4,"value":"a"}]`, "grammar_triggers: element 0: type: 4, want an integer from 0 to 3"},
		{"grammar_triggers", `[{"type":"pattern","value":"a"}]`, `[{"type":"full","value":"a"}]`, `grammar_triggers: element 0: type: the string "full", want word, token, pattern or pattern_full`},
		{"grammar_triggers", `[]`, `[{"value":"a"}]`, "grammar_triggers: element 0: type: missing, want word, token, pattern or pattern_full"},
		{"grammar_triggers", `[]`, `[{"type":"token"}]`, "grammar_triggers: element 0: token: missing, want the id of one"},
		{"grammar_triggers", `[]`, `[{"type":"word","value":""}]`, "grammar_triggers: element 0: value: missing or empty, want a string"},
		{"tools", numbered(1024, function(`"f%d"`)), numbered(1025, function(`"f%d"`)), "tools: element 1024: more than 1024 tools"},
		{"tools", `[` + function(text(128)) + `]`, `[` + function(text(129)) + `]`, `tools: element 0: function: name: the string "aaaa`},
		{"tools", `[` + function(`"azAZ09_-.:/"`) + `]`, `[` + function(`"a b"`) + `]`, `tools: element 0: function: name: the string "a b", want 1 to 128 of the characters a-z A-Z 0-9 _ - . : /`},
		{"tools", `[` + function(`"f"`) + `]`, `[` + function(`""`) + `]`, `tools: element 0: function: name: the string "", want 1 to 128`},
		{"tools", `[{"function":{"name":"f"}}]`, `[{"type":"function","function":{}}]`, "tools: element 0: function: name: missing, want a string"},
		{"tools", `[]`, `[` + function(`"f"`) + `,` + function(`"f"`) + `]`, `tools: element 1: a second tool with the name "f"`},
		{"tools", `[]`, `[{"type":"search"}]`, `tools: element 0: type: the server has no tools of the type "search", want function or custom`},
		{"tools", `[{"type":"custom","custom":{"name":"c"}}]`, `[{"type":"custom"}]`, "tools: element 0: custom: missing, want an object with the name of one"},
		{"tools", `[]`, `[{"type":"function"}]`, "tools: element 0: function: missing, want an object with the name of one"},
		{"tools", `[]`, `[{"function":{"name":"f"},"custom":{"name":"c"}}]`, "tools: element 0: function and custom in one tool, want one of them"},
		{"tools", `[]`, `[{"type":"custom","custom":{}}]`, "tools: element 0: custom: name: missing, want a string"},
		{"tools", `[]`, `[{"type":"custom","custom":{"name":5}}]`, "tools: element 0: custom: number at \"/name\", want string"},
		{"tools", `[]`, `[{"type":"custom","custom":{"name":"c","format":{"type":"xml"}}}]`, `tools: element 0: custom: format: type: the string "xml", want text or grammar`},
		{"tools", `[{"function":{"name":"f","parameters":null,"strict":null}}]`, `[{"function":{"name":"f","parameters":[]}}]`, "tools: element 0: function: parameters: an array, want a JSON schema, which is an object"},
		{"functions", `[{"name":"f"}]`, `[{}]`, "functions: element 0: name: missing, want a string"},
		{"tool_choice", `"required"`, `"any"`, `tool_choice: the string "any", want one of none, auto, required`},
		{"tool_choice", `{"function":{"name":"f"}}`, `{"type":"function"}`, "tool_choice: an object without the name of a function, want none, auto"},
		{"tool_choice", `{"type":"custom","custom":{"name":"f"}}`, `{"type":"mcp","name":"f"}`, `tool_choice: type: the string "mcp", want function, custom or allowed_tools`},
		{"tool_choice", `{"type":"allowed_tools","tools":[{"name":"f"}]}`, `{"type":"allowed_tools","tools":[]}`, "tool_choice: tools: missing or empty, want those that are allowed"},
		{"tool_choice", `{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"function":{"name":"f"}}]}}`, `{"type":"allowed_tools","tools":[{"name":"f"},{}]}`, "tool_choice: tools: element 1: no name, want that of a function"},
		{"tool_choice", `{"name":"f","namespace":null}`, `{"name":"f","namespace":5}`, "tool_choice: namespace: 5, want a string"},
		{"function_call", `{"name":"f"}`, `{}`, "function_call: an object without a name, want none, auto or"},
		{"function_call", `"auto"`, `"required"`, `function_call: the string "required", want one of none, auto`},
		{"messages", `[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f"}}]}]`, `[{"role":"assistant","content":null,"tool_calls":[]}]`, "messages: message 0: content: missing, want a string or an array of parts"},
		{"messages", `[{"role":"user","content":[]}]`, `[{"role":"user","content":"a"},{"content":"a"}]`, "messages: message 1: role: missing, want a string such as user"},
		{"messages", `[{"role":"assistant","function_call":{"name":"f"}}]`, `[{"role":"user","tool_calls":[{}]}]`, "messages: message 0: content: missing"},
		{"messages", `[{"role":"assistant","content":"a","function_call":null,"tool_calls":null}]`, `[{"role":"assistant","tool_calls":[{"type":"custom"}]}]`, "messages: message 0: tool_calls: element 0: custom: missing, want an object with name and input"},
		{"messages", `[{"role":"user","content":[{"type":"text","text":""}]}]`, `[{"role":"user","content":[{"text":"a"}]}]`, "messages: message 0: content: part 0: type: missing, want one of text, image_url"},
		{"messages", `[{"role":"","content":""}]`, `[{"role":"user","content":[{"type":"text"}]}]`, "messages: message 0: content: part 0: text: missing, want a string"},
		{"messages", `[{"role":"user","name":null,"content":"a"}]`, `[{"role":"user","content":[{"type":"input_audio"}]}]`, "messages: message 0: content: part 0: input_audio: missing, want an object such as "},
		{"messages", `[{"role":"x","content":"a"}]`, `[{"role":"user","content":[{"type":"video"}]}]`, `messages: message 0: content: part 0: type: the string "video", want one of text, image_url`},
		{"n_probs", "1000", "1001", "n_probs: 1001, want an integer from 0 to 1000"},
		{"n_cache_reuse", "1e300", "1e999", "n_cache_reuse: 1e999, want a number"},
		{"stream_options", `{"include_usage":null,"other":[1]}`, `{"include_usage":1}`, "stream_options: include_usage: 1, want true or false"},
		{"response_format", `{"type":"text","schema":null}`, `{"type":"json_object","schema":5}`, "response_format: schema: 5, want a JSON schema"},
		{"response_format", `{"type":"json_object","value":{}}`, `{"type":"json_schema","json_schema":{"schema":null}}`, "response_format: json_schema: schema: missing, want a JSON schema"},
		{"speculative.types", `"ngram"`, `"magic"`, `speculative.types: the string "magic", `},
		{"speculative.types", `"off"`, `5`, "speculative.types: 5, want a string"},
		{"grammar", `""`, `7`, "grammar: 7, want a grammar"},
		{"guided_json", `"{}"`, `7`, "guided_json: 7, want a JSON schema"},
		{"json_schema", `true`, `"{}"`, "json_schema: the string "},
		{"structured_outputs", `{"structural_tag":"{}"}`, `{"structural_tag":[]}`, "structured_outputs: structural_tag: an array, want a structural tag"},
		{"stop", `""`, `7`, "stop: 7, want a string or an array of at most 64"},
		{"samplers", `[]`, `7`, "samplers: 7, want an array of names"},
		{"samplers", `["TOP-K"]`, `["luck"]`, `samplers: "luck" is no sampler, want an array of names`},
		{"samplers", `[]`, `[7]`, "samplers: 7, want an array of names"},
		{"dry_sequence_breakers", `[]`, `[7]`, "dry_sequence_breakers: 7, want an array of at most 32 texts"},
		{"tools", `[{"type":"custom","custom":{"name":"c","format":{"type":"text"}}}]`, `[{"type":"custom","custom":7}]`, "tools: element 0: custom: 7, want an object with a name"},
		{"tools", `[{"function":{"name":"f","strict":true,"more":[1]},"more":{}}]`, `[{"function":{"name":"f","strict":1}}]`, "tools: element 0: function: strict: 1, want true or false"},
		{"tool_choice", `{"type":"allowed_tools","allowed_tools":{"more":1,"tools":[{"name":"f"}]}}`, `{"type":"allowed_tools","allowed_tools":7}`, "tool_choice: allowed_tools: 7, want an object"},
		{"tool_choice", `{"function":{"name":"f","more":7}}`, `{"function":{"name":7}}`, "tool_choice: function: name: 7, want a string"},
		{"chat_template_kwargs", `{"a":null}`, `7`, "chat_template_kwargs: 7, want an object"},
		{"sse_ping_interval", "86400", "86401", "sse_ping_interval: 86401, want an integer from -1 to 86400"},
	} {
		if _, _, err := read(`{"` + tt.field + `":` + tt.fits + `}`); err != nil {
			t.Errorf("%s of %.80s: %v", tt.field, tt.fits, err)
		}
		_, _, err := read(`{"` + tt.field + `":` + tt.exceeds + `}`)
		e := (*reply.Error)(nil)
		if !errors.As(err, &e) || e.Status != 400 || e.Param != tt.field || !strings.HasPrefix(e.Message, tt.want) {
			t.Errorf("%s of %.80s: %v, want %s", tt.field, tt.exceeds, err, tt.want)
		}
	}
}

// Messages are what they say, in the older forms too.
func TestMessages(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]}]`: "system: a; user: b|c",
		`[{"role":"assistant","content":null,"reasoning_content":"t","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
			{"role":"tool","tool_call_id":"1","name":"f","content":"r"}]`: `assistant (t):  [1 f {"a":1}]; tool 1 f: r`,
		`[{"role":"assistant","function_call":{"name":"g","arguments":"{}"}},{"role":"function","name":"g","tool_call_id":"x","content":"r"}]`: `assistant:  [ g {}]; tool x g: r`,
		`[{"role":"assistant","content":"a","function_call":null}]`:                                                                            `assistant: a`,
		`[{"role":"assistant","content":"","tool_calls":[{"id":"2","type":"custom","custom":{"name":"c","input":"a\"b"}}]}]`:                   `assistant:  [2 c {"input":"a\"b"}]`,
	} {
		_, c, err := read(`{"messages":` + body + `}`)
		if got := fake.Shown(&c); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", body, got, err, want)
		}
		if string(c.Sent) != body {
			t.Errorf("as it was sent: %s", c.Sent)
		}
	}
}

// What several clients send together says the same, or is refused.
func TestFormsTogether(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ body, want string }{
		{`{"guided_grammar":"root ::= \"a\"","structured_outputs":{"grammar":"root ::= \"a\""}}`, ""},
		{`{"guided_grammar":"root ::= \"a\"","grammar":"root ::= \"b\""}`, "grammar: given together with guided_grammar, want one of them"},
		{`{"guided_json":{"type": "object"},"structured_outputs":{"json":"{\"type\":\"object\"}"}}`, ""},
		{`{"guided_json":{"type": "object"},"json_schema":{"type":"array"}}`, "json_schema: given together with guided_json, want one of them"},
		{`{"guided_json":"{ ","structured_outputs":{"json":"{"}}`, "structured_outputs: json: given together with guided_json, want one of them"},
		{`{"guided_choice":["a","b"],"structured_outputs":{"choice":["a","b"]}}`, ""},
		{`{"guided_choice":["a","b"],"structured_outputs":{"choice":["b","a"]}}`, "structured_outputs: choice: given together with guided_choice, want one of them"},
		{`{"guided_regex":"a","structured_outputs":{"regex":"a"}}`, ""},
		{`{"guided_regex":"a","grammar":"a"}`, "grammar: given together with guided_regex, want one of them"},
		{`{"grammar":"","guided_regex":"a"}`, ""},
		{`{"response_format":{"type":"json_object"},"structured_outputs":{"json_object":true}}`, ""},
		{`{"response_format":{"type":"json_object"},"structured_outputs":{"json_object":false,"regex":"a"}}`, "structured_outputs: regex: given together with response_format, want one of them"},
	} {
		if _, _, err := read(tt.body); err == nil != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("%s: %v, want %q", tt.body, err, tt.want)
		}
	}
}

// The choice of a tool, in each of its forms, and what a name of a namespace is to the model.
func TestToolChoices(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]ask.ToolChoice{
		`"none"`: {Mode: "none"}, `"auto"`: {Mode: "auto"},
		`{"type":"function","function":{"name":"f"}}`:                                                                    {Mode: "required", Names: []string{"f"}},
		`{"type":"function","name":"f","namespace":"ns"}`:                                                                {Mode: "required", Names: []string{"ns__f"}},
		`{"type":"custom","name":"f","namespace":"ns__"}`:                                                                {Mode: "required", Names: []string{"ns__f"}},
		`{"type":"allowed_tools","mode":"required","tools":[{"name":"f","namespace":"n"},{"custom":{"name":"g"}}]}`:      {Mode: "required", Names: []string{"n__f", "g"}},
		`{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}`: {Mode: "auto", Names: []string{"f"}},
	} {
		_, c, err := read(`{"tool_choice":` + body + `}`)
		if got := (ask.ToolChoice{Mode: c.Choice.Mode, Names: c.Choice.Names}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", body, got, err, want)
		}
	}
}

// Defaults of an operator are held to what requests may have, and are named where they may not.
func TestDefaults(t *testing.T) {
	t.Parallel()
	m := &ask.Model{Sampling: sample.Defaults()}
	o, c := ask.NewOptions(m), ask.NewConversation()
	for body, want := range map[string]string{
		`{"temperature":0.5,"reasoning_effort":"low"}`: "", `{}`: "",
		`{"temperature":"hot"}`:          "temperature: the string",
		`{"reasoning_effort":"extreme"}`: "reasoning_effort: the string",
		`{"temprature":1}`:               `no request has a field "temprature"`,
		`[]`:                             "the body is an array, want an object",
		`{"seed":1`:                      "the body ends in the middle of its JSON",
	} {
		_, err := ask.ReadDefaults([]byte(body), &o, &c)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// Turns alternate, a system message that comes late is the user's, and results have the names of their calls.
func TestTranscript(t *testing.T) {
	t.Parallel()
	var c ask.Transcript
	c.Add("user")
	c.Add("system", chat.Texts("a")...)
	c.Add("system", chat.Texts("b")...)
	c.Add("user", chat.Texts("c")...)
	c.Add("system", chat.Texts("d", "e")...)
	c.Call("1", "f", "")
	c.Call("2", "g", `{"x":1}`)
	c.Result("2", chat.Texts("r")...)
	c.Result("1")
	c.Result("3", chat.Texts("s", "t")...)
	c.Say()
	c.Think("t")
	c.Say(chat.Texts("u")...)
	c.Think("v")
	c.Add("assistant", chat.Texts("w")...)
	got := fake.Shown(&ask.Conversation{Messages: c.Messages})
	const want = `system: a|b; user: c|d|e; assistant:  [1 f {}] [2 g {"x":1}]; tool 2 g: r; tool 1 f: ; tool 3 : s|t; assistant (tv): u|w`
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	var late ask.Transcript
	late.Add("user", chat.Texts("a")...)
	late.Add("system", chat.Texts("b")...)
	if got := fake.Shown(&ask.Conversation{Messages: late.Messages}); got != "user: a|b" {
		t.Errorf("behind the first message: %s", got)
	}
	if m := c.Messages[2]; !m.Content.Null {
		t.Errorf("an answer of calls alone has content: %+v", m)
	}
	if r := c.Messages[3].Content; r.Text != "r" || r.Parts != nil {
		t.Errorf("one text is in parts: %+v", r)
	}
	if r := c.Messages[4].Content; r.Text != "" || r.Null || r.Parts != nil {
		t.Errorf("no result is %+v, want an empty text", r)
	}
}
