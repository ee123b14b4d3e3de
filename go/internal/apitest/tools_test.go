// Package apitest tries the package at the root of the module with models that say known texts. It has no code.
package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/go/querntest"
	"github.com/quern-llm/quern/go/scripted"
)

var call = querntest.Call("weather", `{"city": "Rome"}`)

// caller is a model that calls a tool twice and then tells what it was told.
func caller(t *testing.T) *quern.Model {
	return querntest.Speaker(t,
		scripted.Script{When: "messages[-1].role == 'tool' and '21' in messages[-1].content", Text: "It is 21 °C in Rome."},
		scripted.Script{When: "messages[-1].role == 'tool'", Text: "Then I do not know."},
		scripted.Script{When: "'both' in messages[-1].content", Text: "I look.\n" + call + "\n" + strings.ReplaceAll(call, "Rome", "Oslo")},
		scripted.Script{When: "'hello' in messages[-1].content", Text: "Hello."},
		scripted.Script{Text: call})
}

type place struct {
	City string `json:"city" jsonschema:"such as Paris"`
}

type report struct {
	Degrees int `json:"degrees"`
}

func weather(t *testing.T, asked *[]string, err error) quern.Tool {
	t.Helper()
	tool, bad := quern.NewTool("weather", "The weather in a city.", func(_ context.Context, p place) (report, error) {
		*asked = append(*asked, p.City)
		return report{21}, err
	})
	if bad != nil {
		t.Fatal(bad)
	}
	return tool
}

func ask(text string, tools ...quern.Tool) quern.Request {
	return quern.Request{Messages: []quern.Message{quern.User(text)}, Tools: tools, Temperature: new(0.0)}
}

func TestRun(t *testing.T) {
	t.Parallel()
	m := caller(t)
	for _, c := range []struct {
		text   string
		err    error
		asked  []string
		want   string
		rounds int
	}{
		{"How warm is it?", nil, []string{"Rome"}, "It is 21 °C in Rome.", 2},
		{"How warm is it in both?", nil, []string{"Rome", "Oslo"}, "I look.It is 21 °C in Rome.", 2},
		{"How warm is it?", errors.New("the station is closed"), []string{"Rome"}, "Then I do not know.", 2},
		{"hello", nil, nil, "Hello.", 1},
	} {
		var asked []string
		text, rounds, calls := "", 0, 0
		for e, err := range m.Run(t.Context(), ask(c.text, weather(t, &asked, c.err))) {
			if err != nil {
				t.Fatal(err)
			}
			text += e.Text
			if e.Call != nil {
				if calls++; e.Call.Name != "weather" || !json.Valid([]byte(e.Call.Arguments)) || e.Call.ID == "" {
					t.Errorf("the call %+v", e.Call)
				}
			}
			if e.Result != nil {
				rounds++
				if (e.Result.Finish == quern.FinishCalls) != (len(e.Result.Message.Calls()) > 0) {
					t.Errorf("%+v", e.Result)
				}
			}
		}
		if text != c.want || rounds != c.rounds || !slices.Equal(asked, c.asked) || calls != len(c.asked) {
			t.Errorf("%s: %q after %d rounds and %v, want %q", c.text, text, rounds, asked, c.want)
		}
	}
}

// A tool that is called without end ends in an answer without tools.
func TestRunWithoutEnd(t *testing.T) {
	t.Parallel()
	m := querntest.Speaker(t, scripted.Script{When: "not tools", Text: "I give up."}, scripted.Script{Text: call})
	var asked []string
	var last *quern.Result
	for e, err := range m.Run(t.Context(), ask("How warm is it?", weather(t, &asked, nil))) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Result != nil {
			last = e.Result
		}
	}
	if len(asked) != quern.MaxRounds || last.Text() != "I give up." {
		t.Errorf("%q after %d calls", last.Text(), len(asked))
	}
}

// Panics of a tool are the caller's, and the model goes on. A context that ends within one ends the run.
func TestToolsThatFail(t *testing.T) {
	t.Parallel()
	m := caller(t)
	func() {
		defer func() {
			if got := recover(); got != "mine" {
				t.Errorf("recovered %v", got)
			}
		}()
		tool, err := quern.NewTool("weather", "", func(context.Context, place) (string, error) { panic("mine") })
		if err != nil {
			t.Fatal(err)
		}
		for range m.Run(t.Context(), ask("How warm is it?", tool)) { //nolint:revive // the tool panics
		}
		t.Error("no panic")
	}()
	ctx, cancel := context.WithCancel(t.Context())
	tool, err := quern.NewTool("weather", "", func(ctx context.Context, _ place) (string, error) {
		cancel()
		return "", ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	var last error
	for _, err := range m.Run(ctx, ask("How warm is it?", tool)) {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Error(last)
	}
	tool.Call = nil
	for _, err := range m.Run(t.Context(), ask("How warm is it?", tool)) {
		if !errors.Is(err, quern.ErrInvalid) {
			t.Errorf("a tool without a function: %v", err)
		}
	}
	type tree struct{ Children []*tree }
	if _, err := quern.NewTool("grow", "", func(context.Context, tree) (string, error) { return "", nil }); !errors.Is(err, quern.ErrInvalid) {
		t.Errorf("a recursive type: %v", err)
	}
	if _, err := quern.NewTool[place, string]("f", "", nil); !errors.Is(err, quern.ErrInvalid) {
		t.Errorf("no function: %v", err)
	}
}

// A session calls its tools; without their functions, its caller answers.
func TestSessionWithTools(t *testing.T) {
	t.Parallel()
	m := caller(t)
	var asked []string
	tool := weather(t, &asked, nil)
	s, err := m.NewSession(quern.Request{Tools: []quern.Tool{tool}, Temperature: new(0.0)})
	if err != nil {
		t.Fatal(err)
	}
	var roles []quern.Role
	for _, err := range s.Chat(t.Context(), quern.User("How warm is it?")) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, message := range s.Messages() {
		roles = append(roles, message.Role)
	}
	if want := []quern.Role{"user", "assistant", "tool", "assistant"}; !slices.Equal(roles, want) || len(asked) != 1 {
		t.Errorf("%v after %v, want %v", roles, asked, want)
	}
	var copied []quern.Message
	b, err := json.Marshal(s.Messages())
	if err == nil {
		err = json.Unmarshal(b, &copied)
	}
	if again, _ := json.Marshal(copied); err != nil || !bytes.Equal(b, again) {
		t.Errorf("%s becomes %s: %v", b, again, err)
	}

	tool.Call = nil
	s, err = m.NewSession(quern.Request{Tools: []quern.Tool{tool}, Temperature: new(0.0)})
	if err != nil {
		t.Fatal(err)
	}
	result, err := s.Complete(t.Context(), quern.User("How warm is it?"))
	if err != nil || result.Finish != quern.FinishCalls || len(result.Message.Calls()) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	for e, err := range s.Chat(t.Context(), quern.ResultOf(result.Message.Calls()[0], "21")) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Result != nil && e.Result.Text() != "It is 21 °C in Rome." {
			t.Errorf("%q", e.Result.Text())
		}
	}
}

// What may be called is what the request says.
func TestToolChoice(t *testing.T) {
	t.Parallel()
	m := caller(t)
	var asked []string
	for name, c := range map[string]struct {
		text   string
		choice quern.ToolChoice
		calls  bool
	}{
		"none":     {"How warm is it?", quern.NoCalls(), false},
		"required": {"hello", quern.CallOf(), true},
		"named":    {"hello", quern.CallOf("weather"), true},
		"auto":     {"How warm is it?", quern.ToolChoice{}, true},
	} {
		r := ask(c.text, weather(t, &asked, nil))
		r.ToolChoice, r.MaxTokens = c.choice, 200
		result, err := m.Complete(t.Context(), r)
		if err != nil || (len(result.Message.Calls()) > 0) != c.calls {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
}

// A result without a name has that of its call.
func TestResultNames(t *testing.T) {
	t.Parallel()
	m := querntest.Speaker(t, scripted.Script{When: "messages[-1].name == 'weather'", Text: "Warm."}, scripted.Script{Text: "What?"})
	called := quern.Message{Role: quern.RoleAssistant, Parts: []quern.Part{
		{Call: &quern.ToolCall{ID: "1", Name: "clock", Arguments: "{}"}}, {Call: &quern.ToolCall{ID: "2", Name: "weather", Arguments: "{}"}},
	}}
	for id, want := range map[string]string{"1": "What?", "2": "Warm.", "3": "What?"} {
		r := ask("How warm is it?")
		r.Messages = append(r.Messages, called, quern.ResultOf(quern.ToolCall{ID: id}, "21"))
		if result, err := m.Complete(t.Context(), r); err != nil || result.Text() != want {
			t.Errorf("the result of %s: %+v, %v", id, result, err)
		}
	}
}

// A value comes of an answer that is held to its type.
func TestInto(t *testing.T) {
	t.Parallel()
	m := querntest.Speaker(t, scripted.Script{Text: `{"degrees": 21}`})
	got, _, err := quern.Into[report](t.Context(), m, ask("How warm is it?"))
	if err != nil || got.Degrees != 21 {
		t.Errorf("%+v, %v", got, err)
	}
	task, err := quern.NewTask(t.Context(), m, quern.Request{Temperature: new(0.0)}, quern.Example[report]{Input: "cold", Answer: report{-3}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := task.Do(t.Context(), "warm"); err != nil || got.Degrees != 21 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Reasoning is apart from the text.
func TestReasoning(t *testing.T) {
	t.Parallel()
	m := querntest.Thinker(t, "It is warm, I guess.", "Yes.")
	result, err := m.Complete(t.Context(), ask("Is it warm?"))
	if err != nil || result.Text() != "Yes." || result.Message.Reasoning() != "It is warm, I guess." {
		t.Errorf("%+v, %v", result, err)
	}
	bounded := ask("Is it warm?")
	bounded.ReasoningTokens = new(2)
	if short, err := m.Complete(t.Context(), bounded); err != nil || len(short.Message.Reasoning()) >= len(result.Message.Reasoning()) {
		t.Errorf("%+v, %v", short, err)
	}
}
