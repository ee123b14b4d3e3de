package form_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/form"
)

// A reply to a prompt has the form, or any if there is none, and calls of the tools as the rule says. A schema that is
// none is the fault of the tools.
func TestReplyToAPrompt(t *testing.T) {
	tok := small(t)
	source, err := chat.Builtin("chatml")
	if err != nil {
		t.Fatal(err)
	}
	template, err := chat.Parse(source, chat.SpecialTokens{})
	if err != nil {
		t.Fatal(err)
	}
	tool := func(parameters string) []json.RawMessage {
		return []json.RawMessage{json.RawMessage(`{"type":"function","function":{"name":"f","parameters":` + parameters + `}}`)}
	}
	const call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 1}}\n</tool_call>"
	other := strings.Replace(call, "1", "2", 1)
	takesOne := tool(`{"type":"object","properties":{"n":{"const":1}},"required":["n"],"additionalProperties":false}`)
	for name, tt := range map[string]struct {
		form    *form.Form
		tools   []json.RawMessage
		calls   *chat.CallRule
		yes, no []string
		wrong   bool
	}{
		"any text":            {nil, nil, nil, []string{"", "one two", call}, nil, false},
		"a form":              {&form.Form{Kind: form.Regex, Text: "a+"}, nil, nil, []string{"a", "aa"}, []string{"", "b", call}, false},
		"calls":               {nil, takesOne, &chat.CallRule{}, []string{"", "one two", call, "so " + call}, []string{other}, false},
		"a call":              {&form.Form{Kind: form.Free}, takesOne, &chat.CallRule{Required: true, Single: true}, []string{call}, []string{"", "a", other}, false},
		"a form or a call":    {&form.Form{Kind: form.Regex, Text: "a+"}, takesOne, &chat.CallRule{}, []string{"a", call}, []string{"b", other}, false},
		"tools without calls": {nil, takesOne, nil, []string{"", "one"}, nil, false},
		"no schema":           {nil, tool(`{"type":"x"}`), &chat.CallRule{Strict: []string{"f"}}, nil, nil, true},
	} {
		prompt, err := template.Render(chat.Input{Messages: []chat.Message{{Role: "user", Content: chat.Text("a")}}, Tools: tt.tools, AddGenerationPrompt: true})
		if err != nil {
			t.Fatal(err)
		}
		a, err := tt.form.Compile(t.Context(), tok, form.Vocabulary(tok), &prompt, tt.calls)
		if _, wrong := errors.AsType[*form.CallsError](err); wrong != tt.wrong || (err != nil) != tt.wrong {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err == nil {
			takesAll(t, tok, a, name, tt.yes, tt.no)
		}
	}
}

// What is compiled in one namespace is there for the next who asks in it, and for nobody in another.
func TestNamespaces(t *testing.T) {
	tok := small(t)
	v := form.Vocabulary(tok)
	compiled := func(namespace string) any {
		t.Helper()
		a, err := (&form.Form{Kind: form.Regex, Text: "ab+", Namespace: namespace}).Compile(t.Context(), tok, v, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	ours := compiled("ours")
	if compiled("ours") != ours || compiled("theirs") == ours || compiled("") == ours {
		t.Error("the namespaces have the same, or each has it twice")
	}
}
