package chat

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// A writer is a form in which a call can be written for templates that do not do it. All
// others are described and written as Hermes writes them.
type writer interface {
	write(b *script, c Function)
}

// A script is a text that has parts of this package's own, which may be control tokens, and of the conversation.
type script struct {
	strings.Builder
	own [][2]int
}

// put appends a text that is this package's own.
func (b *script) put(s string) {
	at := b.Len()
	if b.WriteString(s); s != "" {
		b.own = append(b.own, [2]int{at, b.Len()})
	}
}

// take appends a text of the conversation.
func (b *script) take(s string) { b.WriteString(s) }

// before returns the content with a text behind it, and an empty line between.
func (c Content) before(b *script) Content {
	all := c.script()
	all.put("\n\n")
	all.add(b)
	return all.content()
}

func (b *script) add(more *script) {
	at := b.Len()
	b.WriteString(more.String())
	for _, r := range more.own {
		b.own = append(b.own, [2]int{at + r[0], at + r[1]})
	}
}

func (b *script) content() Content { return Content{Text: b.String(), own: b.own} }

// script returns the content as one text.
func (c Content) script() *script {
	b := &script{own: slices.Clone(c.own)}
	b.take(c.String())
	return b
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
func (s *syntax) write(b *script, calls ...Function) {
	f := s.form.(writer)
	b.put(s.begin)
	if list, ok := f.(object); ok && list.list {
		b.put(s.open + list.before + "[")
		for i, c := range calls {
			if i > 0 {
				b.put(", ")
			}
			f.write(b, c)
		}
		b.put("]" + list.after + s.shut)
	} else {
		for i, c := range calls {
			if i > 0 {
				b.put("\n")
			}
			b.put(s.open)
			f.write(b, c)
			b.put(s.shut)
		}
	}
	b.put(s.end)
}

func (f object) write(b *script, c Function) {
	name, _ := json.Marshal(c.Name)
	b.put(`{"` + f.name + `": `)
	b.take(string(name))
	b.put(`, "` + f.args + `": `)
	b.take(string(cmp.Or(c.Arguments, "{}")))
	b.put("}")
}

func (f named) write(b *script, c Function) {
	between, after := f.between, f.after
	if strings.HasSuffix(between, "```json") {
		between, after = between+"\n", "\n"+after
	}
	b.put(f.before)
	b.take(c.Name)
	b.put(between)
	b.take(string(cmp.Or(c.Arguments, "{}")))
	b.put(after)
}

// describe puts the tools into the system message, for a template that does not show them.
func (t *Template) describe(in []Message, tools []json.RawMessage) []Message {
	b := &script{}
	b.put("You can call these functions, whose signatures are in JSON, one on each line:\n")
	for _, raw := range tools {
		var one struct {
			Function json.RawMessage `json:"function"`
		}
		if json.Unmarshal(raw, &one) == nil && one.Function != nil {
			raw = one.Function
		}
		b.take(string(raw))
		b.put("\n")
	}
	b.put("To call one, write its name and its arguments, which are a JSON object, in exactly this form:\n")
	t.asText().write(b, Function{Name: "NAME", Arguments: `{"ARGUMENT": "VALUE"}`})
	b.put("\nThen end your answer: you will be sent the result. Call none where you can answer without.")
	if len(in) > 0 && (in[0].Role == "system" || in[0].Role == "developer") {
		first := in[0]
		first.Content = first.Content.before(b)
		return append([]Message{first}, in[1:]...)
	}
	return append([]Message{{Role: "system", Content: b.content()}}, in...)
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
			b := &script{}
			t.asText().write(b, calls...)
			if m.Content.String() == "" {
				m.Content = b.content()
			} else {
				m.Content = m.Content.before(b)
			}
			m.ToolCalls = nil
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
