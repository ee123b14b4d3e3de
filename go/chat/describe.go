package chat

import (
	"cmp"
	"encoding/json"
	"strings"
)

// A writer is a form in which a call can be written for templates that do not do it. All
// others are described and written as Hermes writes them.
type writer interface {
	write(c Function) string
}

// asText returns the syntax in which calls are described to the model and written into the
// conversation where the template does not.
func (t *Template) asText() *syntax {
	if _, ok := t.syntax.form.(writer); ok && t.syntax != &harmonic {
		return t.syntax
	}
	return &hermes
}

// write writes calls.
func (s *syntax) write(calls ...Function) string {
	f := s.form.(writer)
	var b strings.Builder
	b.WriteString(s.begin)
	if list, ok := f.(object); ok && list.list {
		var all []string
		for _, c := range calls {
			all = append(all, f.write(c))
		}
		b.WriteString(s.open + list.before + "[" + strings.Join(all, ", ") + "]" + list.after + s.shut)
	} else {
		for i, c := range calls {
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString(s.open + f.write(c) + s.shut)
		}
	}
	b.WriteString(s.end)
	return b.String()
}

func (f object) write(c Function) string {
	name, _ := json.Marshal(c.Name)
	return `{"` + f.name + `": ` + string(name) + `, "` + f.args + `": ` + string(cmp.Or(c.Arguments, "{}")) + `}`
}

func (f named) write(c Function) string {
	between, after := f.between, f.after
	if strings.HasSuffix(between, "```json") {
		between, after = between+"\n", "\n"+after
	}
	return f.before + c.Name + between + string(cmp.Or(c.Arguments, "{}")) + after
}

// describe puts the tools into the system message, for a template that does not show them.
func (t *Template) describe(in []Message, tools []json.RawMessage) []Message {
	var b strings.Builder
	b.WriteString("You can call these functions, whose signatures are in JSON, one on each line:\n")
	for _, raw := range tools {
		var one struct {
			Function json.RawMessage `json:"function"`
		}
		if json.Unmarshal(raw, &one) == nil && one.Function != nil {
			raw = one.Function
		}
		b.Write(raw)
		b.WriteByte('\n')
	}
	b.WriteString("To call one, write its name and its arguments, which are a JSON object, in exactly this form:\n")
	b.WriteString(t.asText().write(Function{Name: "NAME", Arguments: `{"ARGUMENT": "VALUE"}`}))
	b.WriteString("\nThen end your answer: you will be sent the result. Call none where you can answer without.")
	if len(in) > 0 && (in[0].Role == "system" || in[0].Role == "developer") {
		first := in[0]
		first.Content = Text(first.Content.String() + "\n\n" + b.String())
		return append([]Message{first}, in[1:]...)
	}
	return append([]Message{{Role: "system", Content: Text(b.String())}}, in...)
}

// tell writes calls and their results as text, for a template that does not.
func (t *Template) tell(in []Message) []Message {
	var out []Message
	for _, m := range in {
		if len(m.ToolCalls) > 0 {
			var calls []Function
			for _, c := range m.ToolCalls {
				calls = append(calls, c.Function)
			}
			text := t.asText().write(calls...)
			if before := m.Content.String(); before != "" {
				text = before + "\n\n" + text
			}
			m.Content, m.ToolCalls = Text(text), nil
		}
		if m.Role == "tool" {
			name := ""
			if m.Name != "" {
				name = " of " + m.Name
			}
			text := "The result" + name + ":\n" + m.Content.String()
			if last := len(out) - 1; last >= 0 && m.ToolCallID != "" && out[last].ToolCallID != "" {
				out[last].Content = Text(out[last].Content.String() + "\n\n" + text) // of the same answer: roles take turns
				continue
			}
			m = Message{Role: "user", Content: Text(text), ToolCallID: m.ToolCallID}
		}
		out = append(out, m)
	}
	for i := range out {
		if out[i].Role == "user" {
			out[i].ToolCallID = ""
		}
	}
	return out
}
