package repl

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/chat"
)

// Tools are functions that the model may call.
type Tools interface {
	// Specs returns them as chat templates have them.
	Specs() []json.RawMessage
	// Call returns what a tool answers to the JSON of its arguments. What goes wrong in
	// the tool is an answer too.
	Call(ctx context.Context, name, arguments string) (chat.Content, error)
}

// maxRounds bounds how often the model may call tools before it answers a message.
const maxRounds = 32

func (s *Session) specs() []json.RawMessage {
	if s.Tools == nil {
		return nil
	}
	return s.Tools.Specs()
}

// Allow lets tools be called without a question.
func (s *Session) Allow(names ...string) {
	if s.allowed == nil {
		s.allowed = map[string]bool{}
	}
	for _, name := range names {
		s.allowed[name] = true
	}
}

// call shows a call, asks whether it may be made, makes it, and returns the message that
// answers it. Where it is refused, that says so: models want an answer to each call.
func (s *Session) call(ctx context.Context, call chat.ToolCall, more bool) chat.Message {
	m := chat.Message{Role: "tool", Name: call.Function.Name, ToolCallID: call.ID}
	s.note("%s %s", call.Function.Name, call.Function.Arguments)
	m.Content = chat.Text("not called: the user refused")
	switch {
	case !more:
		m.Content = chat.Text("not called: there were too many calls")
	case s.may(ctx, call.Function.Name):
		answer, err := s.Tools.Call(ctx, call.Function.Name, string(call.Function.Arguments))
		if err != nil {
			answer = chat.Text("error: " + err.Error())
		}
		m.Content = answer.Taken(func(one *chat.Medium) bool { return s.Projector.Takes(one.Kind) })
		s.note("  %s", strings.ReplaceAll(brief(m.Content.Named()), "\n", "\n  "))
	}
	return m
}

// may tells whether a tool may be called. Where there is nobody to ask, only those may that
// were allowed before.
func (s *Session) may(ctx context.Context, name string) bool {
	switch {
	case ctx.Err() != nil:
		return false
	case s.allowed[name]:
		return true
	case !s.Person:
		s.note("not called: nobody can be asked; --mcp-allow %s allows it", name)
		return false
	}
	s.note("call it? y: yes; a: yes, and do not ask again for %s; anything else: no", name)
	typed, err := s.Input.Read()
	if err != nil || ctx.Err() != nil {
		return false
	}
	switch strings.ToLower(strings.TrimSpace(typed)) {
	case "a", "always":
		s.Allow(name)
		return true
	case "y", "yes":
		return true
	}
	return false
}

// brief shortens what a tool answered, to show it.
func brief(text string) string {
	const lines, bytes = 12, 2000
	cut := strings.SplitAfterN(strings.TrimSpace(text), "\n", lines+1)
	short := strings.Join(cut[:min(len(cut), lines)], "")
	if len(short) > bytes {
		short = strings.ToValidUTF8(short[:bytes], "")
	}
	if len(short) < len(strings.TrimSpace(text)) {
		short = strings.TrimRight(short, "\n") + " ..."
	}
	return short
}

// listTools shows the tools, and which of them are called without a question.
func (s *Session) listTools(string) error {
	specs := s.specs()
	if len(specs) == 0 {
		s.note("there are none; --mcp FILE gives those of MCP servers")
	}
	for _, raw := range specs {
		var t struct {
			Function struct{ Name, Description string } `json:"function"`
		}
		if err := json.Unmarshal(raw, &t); err != nil {
			return err
		}
		line, _, _ := strings.Cut(t.Function.Description, "\n")
		s.note("  %-22s %s", t.Function.Name, line)
	}
	if len(s.allowed) > 0 {
		s.note("called without a question: %s", strings.Join(slices.Sorted(maps.Keys(s.allowed)), " "))
	}
	return nil
}
