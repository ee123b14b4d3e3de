package openai_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// quoted is a text in JSON.
func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// Real tokens, a real grammar of chats, the real engine: a call, its result, an answer.
func TestScriptedTools(t *testing.T) {
	t.Parallel()
	s := fake.Scripted(t, scripted.Model{Template: fake.ChatML, Controls: []string{"<|im_start|>", "<|im_end|>"},
		Scripts: []scripted.Script{
			{When: "messages[-1].role == 'tool'", Text: "It is 21 °C in Rome."},
			{When: "tools", Text: "<think>\nThe weather? I have a tool.\n</think>\n\nOne moment.\n<tool_call>\n{\"name\": " +
				"\"get_weather\", \"arguments\": {\"place\": \"Rome\"}}\n</tool_call>"},
			{Text: "I can't know that, and I can't know that."},
		}})
	const path = "/v1/chat/completions"
	for _, sampling := range []string{``, `,"temperature":0`, `,"stream":false,"temperature":1,"seed":3`} {
		c := fake.Post[chatAnswer](s, path, `{`+withTools+sampling+`}`).Choices[0]
		if m := c.Message; c.Finish != "tool_calls" || *m.Content != "One moment." ||
			m.Reasoning != "The weather? I have a tool." ||
			len(m.Calls) != 1 || m.Calls[0].Function.Name != "get_weather" ||
			m.Calls[0].Function.Arguments != `{"place": "Rome"}` {
			t.Fatalf("got %+v", c)
		}
	}
	const results = `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"One moment.","tool_calls":[{"id":"c1","type":"function",
		"function":{"name":"get_weather","arguments":"{\"place\": \"Rome\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"21"}]`
	for body, want := range map[string]string{
		fake.Hi: "I can't know that, and I can't know that.",
		results + `,"tools":[` + fake.WeatherTool + `]`: "It is 21 °C in Rome.",
	} {
		if c := fake.Post[chatAnswer](s, path, `{`+body+`}`).Choices[0]; *c.Message.Content != want || c.Finish != "stop" ||
			c.Message.Calls != nil {
			t.Errorf("got %+v, want %q", c, want)
		}
	}
}

// What a model would say otherwise is held to the form of a call, from where one begins or where
// one is required, and to the schema.
func TestScriptedConstraints(t *testing.T) {
	t.Parallel()
	says := scripted.Model{Template: fake.ChatML, Controls: []string{"<|im_start|>", "<|im_end|>"},
		Scripts: []scripted.Script{
			{When: "messages[-1].content == 'wrong'",
				Text: "Well: <tool_call>\n{\"name\": \"get_dinner\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>"},
			{When: "messages[-1].content == 'think'", Text: "<think>Is <tool_call> a call?</think>No."},
			{Text: "No call at all."},
		}}
	thinks := fake.Scripted(t, says)
	says.Template = strings.ReplaceAll(fake.ChatML, "<think>", "")
	s := fake.Scripted(t, says)
	const path = "/v1/chat/completions"
	ask := func(s *fake.Site, content, fields string) chatChoice {
		return fake.Post[chatAnswer](s, path, `{"messages":[{"role":"user","content":"`+content+
			`"}],"max_tokens":200,"tools":[`+fake.WeatherTool+`,`+fake.TimeTool+`]`+fields+`}`).Choices[0]
	}
	for fields, want := range map[string]string{
		`,"tool_choice":"required"`: "",
		`,"tool_choice":{"type":"function","function":{"name":"get_weather"}}`:                                                                     "get_weather",
		`,"tool_choice":{"type":"function","function":{"name":"get_time"}}`:                                                                        "get_time",
		`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"get_time"}}]}}`: "get_time",
		`,"tool_choice":"required","parallel_tool_calls":false`:                                                                                    "",
		`,"tool_choice":"required","temperature":1.5,"seed":7`:                                                                                     "",
	} {
		c := ask(s, "hi", fields)
		if c.Finish != "tool_calls" || c.Message.Content != nil || len(c.Message.Calls) == 0 {
			t.Errorf("%s: got %+v", fields, c)
			continue
		}
		f := c.Message.Calls[0].Function
		if want != "" && f.Name != want || f.Name == "get_weather" && !strings.Contains(string(f.Arguments), `"place"`) ||
			!json.Valid([]byte(f.Arguments)) {
			t.Errorf("%s: got %+v", fields, f)
		}
	}
	if c := ask(s, "hi", ""); *c.Message.Content != "No call at all." || c.Finish != "stop" {
		t.Errorf("free: got %+v", c)
	}
	if c := ask(thinks, "think", ""); *c.Message.Content != "No." || c.Message.Reasoning != "Is <tool_call> a call?" {
		t.Errorf("thoughts: got %+v", c)
	}
	c := ask(s, "wrong", `,"temperature":0`) // of tokens that are as likely the first
	if c.Finish != "tool_calls" || !strings.HasPrefix(*c.Message.Content, "Well:") || len(c.Message.Calls) != 1 ||
		c.Message.Calls[0].Function.Name == "get_dinner" || !json.Valid([]byte(c.Message.Calls[0].Function.Arguments)) {
		t.Errorf("a wrong call: got %q and %+v", *c.Message.Content, c)
	}
	status, b, _ := s.Do("POST", path, `{`+fake.Hi+
		`,"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{"a":{"type":"string","not":{"pattern":"("}}}}}}]}`)
	if status != 400 || !strings.Contains(string(b), "the tool f") || !strings.Contains(string(b), `"param":"tools"`) {
		t.Errorf("a strict schema that cannot be a grammar: %d %s", status, b)
	}
}

// Reasoning ends when its budget is spent, with a message, and on request; its tokens are counted.
func TestScriptedBudget(t *testing.T) {
	t.Parallel()
	s := fake.Scripted(t, scripted.Model{Template: fake.ChatML, Controls: []string{"<|im_start|>", "<|im_end|>"},
		Scripts: []scripted.Script{
			{Text: "<think>One and two and three and four and five.</think>Six."},
		}})
	const path = "/v1/chat/completions"
	c := fake.Post[chatAnswer](s, path, `{`+fake.Hi+`}`)
	whole := c.Usage.Completion.ReasoningTokens
	if m := c.Choices[0].Message; m.Reasoning != "One and two and three and four and five." || *m.Content != "Six." ||
		whole < 8 || whole > c.Usage.CompletionTokens {
		t.Fatalf("got %+v, %+v", m, c.Usage)
	}
	for _, tools := range []string{"", `,"tools":[` + fake.TimeTool + `]`} {
		c = fake.Post[chatAnswer](s, path, `{`+fake.Hi+
			`,"max_tokens":60,"reasoning_budget_tokens":4,"reasoning_budget_message":" Enough."`+tools+`}`)
		if m := c.Choices[0].Message; !strings.HasSuffix(m.Reasoning, " Enough.") || !strings.HasPrefix(m.Reasoning, "One") ||
			strings.Contains(m.Reasoning, "five") {
			t.Errorf("bounded: got %+v", m)
		}
	}
	status, b, _ := s.Do("POST", path+"/control", `{"id":"chatcmpl-none","action":"reasoning_end"}`)
	if status != 404 || !strings.Contains(string(b), `"param":"id"`) {
		t.Errorf("control of nothing: %d %s", status, b)
	}
}

// Thoughts before an answer that is held to a form are free; the answer is what the form says, not
// what the model would.
func TestScriptedForms(t *testing.T) {
	t.Parallel()
	s := fake.Scripted(t, scripted.Model{Template: fake.ChatML, Controls: []string{"<|im_start|>", "<|im_end|>"},
		Scripts: []scripted.Script{
			{When: "messages[-1].content == 'right'", Text: "<think>Is {\"n\": \"x\"} <JSON>?</think>\n\n{\"n\": 7}"},
			{Text: "<think>Is {\"n\": \"x\"} <JSON>?</think>\n\n{\"n\": \"many\", \"m\": 3}"},
		}})
	const form = `,"max_tokens":100,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{"n":{"type":"integer","maximum":99}},"required":["n"],"additionalProperties":false}}}`
	for content, want := range map[string]string{"right": `{"n": 7}`, "wrong": ""} {
		a := fake.Post[chatAnswer](s, "/v1/chat/completions",
			`{"messages":[{"role":"user","content":"`+content+`"}]`+form+`}`).Choices[0]
		var is struct{ N *int }
		if a.Message.Content == nil || json.Unmarshal([]byte(*a.Message.Content), &is) != nil || is.N == nil ||
			want != "" && *a.Message.Content != want ||
			a.Message.Reasoning != `Is {"n": "x"} <JSON>?` || a.Finish != "stop" {
			t.Errorf("%s: got %+v", content, a)
		}
	}
}

// Thoughts that the prompt has opened are free, and the form begins after them.
func TestScriptedFormsAfterOpenedThoughts(t *testing.T) {
	t.Parallel()
	s := fake.Scripted(t, scripted.Model{Template: fake.ChatML, Opens: "<think>",
		Controls: []string{"<|im_start|>", "<|im_end|>", "<think>"}, Scripts: []scripted.Script{
			{Text: "<think>Is {\"n\": \"x\"} <JSON>?\n</think>\n\n{\"n\": \"many\", \"m\": 3}"},
		}})
	const form = `,"max_tokens":100,"json_schema":{"type":"object","properties":{"n":{"type":"integer","maximum":99}},"required":["n"],"additionalProperties":false}`
	a := fake.Post[chatAnswer](s, "/v1/chat/completions", `{`+fake.Hi+form+`}`).Choices[0]
	var is struct{ N *int }
	if a.Message.Content == nil || json.Unmarshal([]byte(*a.Message.Content), &is) != nil || is.N == nil ||
		a.Message.Reasoning != `Is {"n": "x"} <JSON>?` || a.Finish != "stop" {
		t.Errorf("got %+v", a)
	}
	prompt := fake.Post[struct{ Prompt string }](s, "/apply-template", `{`+fake.Hi+`}`).Prompt
	if !strings.HasSuffix(prompt, "<think>") {
		t.Errorf("the prompt is %q", prompt)
	}
}

// The input of a custom tool is of its grammar, whatever the model would write.
func TestScriptedInputs(t *testing.T) {
	t.Parallel()
	s := fake.Scripted(t, scripted.Model{Template: fake.ChatML, Controls: []string{"<|im_start|>", "<|im_end|>"},
		Scripts: []scripted.Script{
			{When: "messages[-1].content == 'right'",
				Text: "<tool_call>\n{\"name\": \"apply_patch\", \"arguments\": {\"input\": \"*** Begin\\n+a \\\"b\\\"\\n*** " +
					"End\"}}\n</tool_call>"},
			{Text: "<tool_call>\n{\"name\": \"apply_patch\", \"arguments\": {\"input\": \"Here is a patch\"}}\n</tool_call>"},
		}})
	for content, want := range map[string]string{"right": "*** Begin\n+a \"b\"\n*** End", "wrong": ""} {
		for _, f := range []string{`"syntax":"lark","definition":"start: \"*** Begin\\n\" line+ \"*** End\"\nline: \"+\" /[a-z \"]{1,8}/ \"\\n\""`,
			`"syntax":"regex","definition":"\\*\\*\\* Begin\\n(\\+[a-z \"]{1,8}\\n)+\\*\\*\\* End"`} {
			r := fake.Post[resp](s, "/v1/responses",
				`{"input":"`+content+`","max_output_tokens":300,"temperature":0,"tools":[{"type":"custom","name":"apply_patch","format":{"type":"grammar",`+f+`}}]}`)
			if len(r.Output) == 0 {
				t.Fatalf("%s: no output", content)
			}
			last := r.Output[len(r.Output)-1]
			if last.Type != "custom_tool_call" || !strings.HasPrefix(last.Input, "*** Begin\n+") ||
				want != "" && last.Input != want {
				t.Errorf("%s: got %+v", content, last)
			}
		}
	}
	status, b, _ := s.Do("POST", "/v1/responses",
		`{"input":"x","tools":[{"type":"custom","name":"p","format":{"type":"grammar","syntax":"lark","definition":"start: ("}}]}`)
	if status != 400 || !strings.Contains(string(b), "format") {
		t.Errorf("a grammar that is none: %d %s", status, b)
	}
}

// Custom tools in a chat: the input is of its grammar, whole or streamed, beside functions, and its result
// is answered.
func TestScriptedCustomTools(t *testing.T) {
	t.Parallel()
	const function = `<tool_call>\n{\"name\": \"get_time\", \"arguments\": {\"place\": \"Rome\"}}\n</tool_call>`
	custom := func(input string) string {
		return `<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": ` + strings.ReplaceAll(quoted(input), `"`,
			`\"`) + `}}\n</tool_call>`
	}
	unquoted := func(s string) string { return strings.NewReplacer(`\n`, "\n", `\"`, `"`).Replace(s) }
	s := fake.Scripted(t, scripted.Model{Template: fake.ChatML, Controls: []string{"<|im_start|>", "<|im_end|>"},
		Scripts: []scripted.Script{
			{When: "messages[-1].role == 'tool'", Text: "Patched."},
			{When: "messages[-1].content == 'both'", Text: unquoted("One moment.\n" + custom("+a b") + function + custom("+c"))},
			{When: "messages[-1].content == 'right'", Text: unquoted(custom("+a b"))},
			{Text: unquoted(custom("Here is a patch"))},
		}})
	const path = "/v1/chat/completions"
	const choice = `,"tool_choice":{"type":"custom","custom":{"name":"patch"}}`
	held := []string{`{"type":"grammar","grammar":{"syntax":"lark","definition":"start: \"+\" /[a-c ]{1,8}/"}}`,
		`{"type":"grammar","grammar":{"syntax":"regex","definition":"\\+[a-c ]{1,8}"}}`}
	ask := func(content, format, fields string) string {
		return `{"messages":[{"role":"user","content":"` + content +
			`"}],"max_tokens":300,"temperature":0,"tools":[` + fake.TimeTool +
			`,{"type":"custom","custom":{"name":"patch","description":"Patches","format":` + format + `}}]` + fields + `}`
	}
	for _, c := range []struct{ content, format, fields, want string }{
		{"right", held[0], "", "+a b"}, {"right", held[1], choice, "+a b"}, {"wrong", held[0], "", ""},
		{"wrong", held[1], choice, ""},
		{"wrong", `{"type":"text"}`, "", "Here is a patch"},
		{"wrong", held[1], `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"custom","custom":{"name":"patch"}}]}}`, ""},
	} {
		a := fake.Post[chatAnswer](s, path, ask(c.content, c.format, c.fields+`,"parallel_tool_calls":false`)).Choices[0]
		if a.Finish != "tool_calls" || len(a.Message.Calls) != 1 {
			t.Fatalf("%+v: got %+v", c, a)
		}
		call := a.Message.Calls[0]
		if call.Type != "custom" || call.ID == "" || call.Function != nil || call.Custom == nil ||
			call.Custom.Name != "patch" ||
			c.want != "" && call.Custom.Input != c.want || c.want == "" && !strings.HasPrefix(call.Custom.Input, "+") {
			t.Errorf("%+v: got %+v %+v", c, call, call.Custom)
		}
	}
	for _, fields := range []string{"", `,"logprobs":true`} {
		var got []string
		for _, e := range s.Events(path, ask("both", held[0], `,"stream":true`+fields)) {
			if e == "[DONE]" {
				continue
			}
			for _, c := range fake.Parse[toolChunk](t, []byte(e)).Choices[0].Delta.Calls {
				switch {
				case c.Custom != nil && c.Function.Name+c.Function.Arguments != "":
					t.Errorf("a call that is both: %s", e)
				case c.Custom != nil:
					got = append(got, fmt.Sprintf("%d %s %s %s", c.Index, c.Type, c.Custom.Name, c.Custom.Input))
				case c.Function.Name != "":
					got = append(got, fmt.Sprintf("%d %s %s", c.Index, c.Type, c.Function.Name))
				}
			}
		}
		if want := "0 custom patch |0   +a|0    b|1 function get_time|2 custom patch |2   +c"; strings.Join(got,
			"|") != want {
			t.Errorf("streamed%s: got %q, want %q", fields, strings.Join(got, "|"), want)
		}
	}
	const result = `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"c1","type":"custom","custom":{"name":"patch","input":"+a \"b\""}}]},
		{"role":"tool","tool_call_id":"c1","content":"done"}],"tools":[{"type":"custom","custom":{"name":"patch"}}]}`
	if c := fake.Post[chatAnswer](s, path, result).Choices[0]; *c.Message.Content != "Patched." {
		t.Errorf("after a result: %+v", c)
	}
	prompt := fake.Post[struct{ Prompt string }](s, "/apply-template", result).Prompt
	if want := `<tool_call>{"name": "patch", "arguments": {"input": "+a \"b\""}}</tool_call>`; !strings.Contains(prompt,
		want) {
		t.Errorf("the prompt is %s, want %s in it", prompt, want)
	}
	status, b, _ := s.Do("POST", path, `{"messages":[{"role":"assistant","tool_calls":[{"id":"c1","type":"custom"}]}]}`)
	if status != 400 || !strings.Contains(string(b), "message 0: tool_calls: element 0: custom: missing") {
		t.Errorf("a call without one: %d %s", status, b)
	}
}

// A lazy grammar holds from its trigger on; the text before is what the model says.
func TestScriptedLazyGrammars(t *testing.T) {
	t.Parallel()
	const wrong = "So <n> { \"a\": 1}, or a {b}: <call>x</call>."
	s := fake.Scripted(t, scripted.Model{Template: fake.ChatML, Controls: []string{"<|im_start|>", "<|im_end|>", "<call>"},
		Scripts: []scripted.Script{
			{When: "messages[-1].content == 'free'", Text: "Nothing here."},
			{Text: wrong},
		}})
	call := fake.Post[struct{ Tokens []int32 }](s, "/tokenize", `{"content":"<call>","parse_special":true}`).Tokens
	if len(call) != 1 {
		t.Fatalf("<call> is the tokens %v", call)
	}
	word := func(s string) string { return `[{"type":"word","value":` + quoted(s) + `}]` }
	for _, c := range []struct{ name, content, grammar, fields, want string }{
		{"a word", "x", `root ::= "<n>" [^0-9]{0,3} [0-9] "</n>"`, `"grammar_triggers":` + word("<n>"),
			`^So <n>[^0-9]{0,3}[0-9]</n>$`},
		{"its number", "x", `root ::= "<n>" [^0-9]{0,3} [0-9] "</n>"`, `"grammar_triggers":[{"type":1,"value":"<n>"}]`,
			`^So <n>[^0-9]{0,3}[0-9]</n>$`},
		{"none comes", "free", `root ::= "<n>" [^0-9]{0,3} [0-9] "</n>"`, `"grammar_triggers":` + word("<n>"),
			`^Nothing here\.$`},
		{"the first of two", "x", `root ::= "{" [^}]{0,6} "}!"`,
			`"grammar_triggers":[{"type":"word","value":"zz"},{"type":"word","value":"{b"},{"type":"word","value":"{"}]`,
			`^So <n> \{[^}]{0,6}\}!$`},
		{"a pattern", "x", `root ::= "{b}" ":"? " "? "!"`, `"grammar_triggers":[{"type":"pattern","value":"\\{[a-z]"}]`,
			`^So <n> \{ "a": 1\}, or a \{b\}:? ?!$`},
		{"its group", "x", `root ::= "{b}" ":"? " "? "!"`, `"grammar_triggers":[{"type":"pattern","value":"or a\\s*(\\{)"}]`,
			`^So <n> \{ "a": 1\}, or a \{b\}:? ?!$`},
		{"a whole pattern", "x", `root ::= "{b}" ":"? " "? "!"`,
			`"grammar_triggers":[{"type":"pattern_full","value":"[^]*or (?:a )(\\{)[^]*"}]`,
			`^So <n> \{ "a": 1\}, or a \{b\}:? ?!$`},
		{"not the whole", "x", `root ::= "{b}" ":"? " "? "!"`,
			`"grammar_triggers":[{"type":"pattern_full","value":"or a (\\{)"}]`, `^So <n> \{ "a": 1\}, or a \{b\}: x</call>\.$`},
		{"a token", "x", `root ::= "<call>" [0-9]`,
			`"grammar_triggers":[{"type":"token","value":"<call>","token":` + fmt.Sprint(call[0]) + `}]`,
			`^So <n> \{ "a": 1\}, or a \{b\}: [0-9]$`},
		{"a preserved token", "x", `root ::= "<call>" [0-9]`,
			`"preserved_tokens":["<call>","not one"],"grammar_triggers":` + word("<call>"),
			`^So <n> \{ "a": 1\}, or a \{b\}: <call>[0-9]$`},
		{"not lazy", "x", `root ::= [0-9]`, `"grammar_lazy":false,"preserved_tokens":["<call>"],"grammar_triggers":` + word("<call>"), `^[0-9]$`},
	} {
		fields := `,"temperature":0,"max_tokens":100,"grammar":` + quoted(c.grammar) + `,` + c.fields
		if !strings.Contains(fields, "grammar_lazy") {
			fields += `,"grammar_lazy":true`
		}
		a := fake.Post[chatAnswer](s, "/v1/chat/completions",
			`{"messages":[{"role":"user","content":"`+c.content+`"}]`+fields+`}`).Choices[0]
		if a.Message.Content == nil || a.Finish != "stop" || !regexp.MustCompile(c.want).MatchString(*a.Message.Content) {
			t.Errorf("%s: got %+v %q, want %s", c.name, a, *a.Message.Content, c.want)
		}
		prompt := fake.Post[struct{ Prompt string }](s, "/apply-template",
			`{"messages":[{"role":"user","content":"`+c.content+`"}]}`).Prompt
		n := fake.Post[struct{ Content string }](s, "/completion", `{"prompt":`+quoted(prompt)+fields+`}`)
		if n.Content != *a.Message.Content {
			t.Errorf("%s: /completion has %q, chat %q", c.name, n.Content, *a.Message.Content)
		}
	}
	for fields, want := range map[string]string{
		``:                                      "grammar_triggers: missing",
		`"grammar_triggers":[]`:                 "grammar_triggers: missing",
		`"grammar_triggers":5`:                  "grammar_triggers: 5, want an array of triggers",
		`"grammar_triggers":[5]`:                "grammar_triggers: element 0: 5, want an object",
		`"grammar_triggers":[{}]`:               "grammar_triggers: element 0: type: missing",
		`"grammar_triggers":[{"type":"words"}]`: "grammar_triggers: element 0: type: the string \"words\", want word, token",
		`"grammar_triggers":[{"type":4}]`:       "grammar_triggers: element 0: type: 4",
		`"grammar_triggers":[{"type":"word"}]`:  "grammar_triggers: element 0: value: missing",
		`"grammar_triggers":[{"type":"token"}]`: "grammar_triggers: element 0: token: missing",
		`"grammar_triggers":[{"type":"token","token":99999999}]`: "grammar_triggers: element 0: token: 99999999, want " +
			"one of the vocabulary",
		`"grammar_triggers":[{"type":"token","token":-1}]`:            "grammar_triggers: element 0: token: -1",
		`"grammar_triggers":[{"type":"pattern","value":"("}]`:         "grammar_triggers: element 0: ) is missing",
		`"grammar_triggers":[{"type":"pattern","value":"a|(b)"}]`:     "grammar_triggers: element 0: the first capturing group",
		`"grammar_triggers":[{"type":"pattern_full","value":"(b)?"}]`: "grammar_triggers: element 0: the first capturing group",
		`"grammar_triggers":` + word("<call>"): "grammar_triggers: element 0: the control token " +
			"\"<call>\", want it in preserved_tokens",
		`"preserved_tokens":[5]`: "preserved_tokens: ",
		`"grammar_lazy":"yes"`:   "grammar_lazy: ",
	} {
		if fields != "" {
			fields = "," + fields
		}
		lazy := `,"grammar_lazy":true`
		if strings.Contains(fields, "grammar_lazy") {
			lazy = ""
		}
		status, b, _ := s.Do("POST", "/completion", `{"prompt":"x","n_predict":1,"grammar":"root ::= \"a\""`+lazy+fields+`}`)
		e := fake.Parse[struct {
			Error struct{ Message, Param string }
		}](t, b).Error
		if status != 400 || !strings.HasPrefix(e.Message, want) || !strings.HasPrefix(want, e.Param+":") || e.Param == "" {
			t.Errorf("%s: %d %s, want %s", fields, status, b, want)
		}
	}
}

// Calls of tools, answers that are given up and reasoning that is ended on request share passes:
// none changes another's text.
func TestScriptedCompany(t *testing.T) {
	t.Parallel()
	thought := ""
	for i := range 600 { // long enough that control comes in time
		thought += fmt.Sprintf("%03d ", i)
	}
	s := fake.Scripted(t, scripted.Model{Template: fake.ChatML, Controls: []string{"<|im_start|>", "<|im_end|>"},
		Scripts: []scripted.Script{
			{When: "messages[-1].role == 'tool'", Text: "It is noon."},
			{When: "tools", Text: "<think>A tool?</think>Yes.\n<tool_call>\n{\"name\": \"get_time\", \"arguments\": " +
				"{\"place\": \"Rome\"}}\n</tool_call>"},
			{Text: "<think>" + thought + "</think>Done."},
		}})
	const path = "/v1/chat/completions"
	// begin starts a stream and returns its id and what is left of it after the first event.
	begin := func(ctx context.Context, fields string) (string, *bufio.Scanner, func()) {
		req, err := http.NewRequestWithContext(ctx, "POST", s.URL+path,
			strings.NewReader(`{`+fake.Hi+`,"stream":true,"reasoning_control":true`+fields+`}`))
		if err != nil {
			t.Error(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return "", nil, func() {}
		}
		lines := bufio.NewScanner(resp.Body)
		lines.Scan()
		return resp.Header.Get("X-Completion-Id"), lines, func() { resp.Body.Close() }
	}
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() { // a call and its result
			c := fake.Post[chatAnswer](s, path, `{`+fake.Hi+`,"tools":[`+fake.TimeTool+`]}`).Choices[0]
			if m := c.Message; c.Finish != "tool_calls" || *m.Content != "Yes." || m.Reasoning != "A tool?" ||
				len(m.Calls) != 1 || m.Calls[0].Function.Arguments != `{"place": "Rome"}` {
				t.Errorf("a call: %+v", c)
			}
			c = fake.Post[chatAnswer](s, path, `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"get_time","arguments":"{}"}}]},
				{"role":"tool","tool_call_id":"c","content":"12"}],"tools":[`+fake.TimeTool+`]}`).Choices[0]
			if *c.Message.Content != "It is noon." {
				t.Errorf("after a result: %+v", c)
			}
		})
		wg.Go(func() { // given up, by going away and by DELETE
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			id, lines, done := begin(ctx, `,"ignore_eos":true`)
			defer done()
			if i%2 == 0 {
				cancel()
				return
			}
			if status, b, _ := s.Do("DELETE", path+"/"+id, ""); status != 200 {
				t.Errorf("DELETE: %d %s", status, b)
			}
			for lines.Scan() {
			}
		})
		wg.Go(func() { // ended reasoning, of two answers at once
			id, lines, done := begin(t.Context(), `,"n":2,"reasoning_budget_message":" Enough."`)
			defer done()
			if status, b, _ := s.Do("POST", path+"/control", `{"id":"`+id+`","action":"reasoning_end"}`); status != 200 {
				t.Errorf("control: %d %s", status, b)
			}
			var reasoning [2]string
			for lines.Scan() {
				data, ok := strings.CutPrefix(lines.Text(), "data: {")
				if !ok {
					continue
				}
				for _, c := range fake.Parse[chunk](t, []byte("{"+data)).Choices {
					reasoning[c.Index] += c.Delta.Reasoning
				}
			}
			for _, r := range reasoning {
				before, ended := strings.CutSuffix(r, " Enough.")
				if !ended || strings.Contains(r, "599") || !strings.HasPrefix(thought, before[:min(len(before), 100)]) {
					t.Errorf("ended on request: %q", r)
				}
			}
		})
	}
	wg.Wait()
	s.Idle()
	if c := fake.Post[chatAnswer](s, path, `{`+fake.Hi+
		`}`).Choices[0]; c.Message.Reasoning != strings.TrimSpace(thought) || *c.Message.Content != "Done." {
		t.Errorf("afterwards: %+v", c)
	}
}
