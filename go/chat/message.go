package chat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/internal/jinja"
)

// Message is one of a conversation, as in a request to /v1/chat/completions.
type Message struct {
	Role             string     `json:"role"`
	Content          Content    `json:"content"`
	Name             string     `json:"name,omitempty"`
	ToolCalls        []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID       string     `json:"tool_call_id,omitempty"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
}

// Content is the text of a message: one text, or parts, or null.
type Content struct {
	Text  string
	Parts []Part // not nil where the content came in parts
	Null  bool

	own [][2]int // ranges of Text that this package wrote, in order
}

// A Part of content is a text or a medium.
type Part struct {
	Text   string // of a medium: empty, or the marker that stands for it while it is rendered
	Medium *Medium
}

// Text is content of one text.
func Text(s string) Content { return Content{Text: s} }

// Texts are parts that are texts.
func Texts(all ...string) []Part {
	parts := make([]Part, len(all))
	for i, s := range all {
		parts[i].Text = s
	}
	return parts
}

// String is the content as one text, with a line for each part. Beside a medium no line ends.
func (c Content) String() string {
	if c.Parts == nil {
		return c.Text
	}
	var b strings.Builder
	for i, p := range c.Parts {
		if i > 0 && p.Medium == nil && c.Parts[i-1].Medium == nil {
			b.WriteByte('\n')
		}
		b.WriteString(p.Text)
	}
	return b.String()
}

// paragraphs returns the content with one text in place of those that follow each other, with an empty line between them: what
// llama-server has a model go on with. Templates that take parts put nothing between texts, or what nobody knows.
func (c Content) paragraphs() Content {
	if c.Parts == nil {
		return c
	}
	var parts []Part
	for i := 0; i < len(c.Parts); i++ {
		p := c.Parts[i]
		var texts []string
		for ; p.Medium == nil && i < len(c.Parts) && c.Parts[i].Medium == nil; i++ {
			texts = append(texts, c.Parts[i].Text)
		}
		if texts != nil {
			p.Text = strings.Join(texts, "\n\n")
			i-- // the medium behind them
		}
		parts = append(parts, p)
	}
	if len(parts) == 1 && parts[0].Medium == nil {
		return Text(parts[0].Text)
	}
	c.Parts = parts
	return c
}

// Taken returns the content with a text in place of each medium that a model does not take.
func (c Content) Taken(takes func(*Medium) bool) Content {
	if !slices.ContainsFunc(c.Parts, func(p Part) bool { return p.Medium != nil && !takes(p.Medium) }) {
		return c
	}
	c.Parts = slices.Clone(c.Parts)
	for i, p := range c.Parts {
		if p.Medium != nil && !takes(p.Medium) {
			c.Parts[i] = Part{Text: fmt.Sprintf("(a %s, which this model cannot read)", cmp.Or(p.Medium.Kind.String(), "file"))}
		}
	}
	return c
}

// Named is the content as one text that names each medium.
func (c Content) Named() string {
	c.Parts = slices.Clone(c.Parts)
	for i, p := range c.Parts {
		if p.Medium != nil {
			c.Parts[i] = Part{Text: fmt.Sprintf("(a %s)", p.Medium.Kind)}
		}
	}
	return c.String()
}

// Media are those of the content, in order.
func (c Content) Media() []*Medium {
	var all []*Medium
	for _, p := range c.Parts {
		if p.Medium != nil {
			all = append(all, p.Medium)
		}
	}
	return all
}

// UnmarshalJSON takes a string, null, or a list of parts: texts, and media as data URLs.
func (c *Content) UnmarshalJSON(data []byte) error {
	*c = Content{}
	if bytes.Equal(data, []byte("null")) {
		c.Null = true
		return nil
	}
	if data[0] != '[' {
		if json.Unmarshal(data, &c.Text) != nil {
			return badRequest("content must be a string or a list of parts")
		}
		return nil
	}
	var parts []part
	if err := json.Unmarshal(data, &parts); err != nil {
		return badRequest("content must be a string or a list of parts: %v", err)
	}
	c.Parts = []Part{}
	for i, p := range parts {
		one, err := p.read()
		if err != nil {
			return badRequest("content[%d] %v", i, err)
		}
		c.Parts = append(c.Parts, one)
	}
	return nil
}

// MarshalJSON is the inverse of UnmarshalJSON.
func (c Content) MarshalJSON() ([]byte, error) {
	switch {
	case c.Null:
		return []byte("null"), nil
	case c.Parts == nil:
		return json.Marshal(c.Text)
	}
	parts := []part{}
	for _, p := range c.Parts {
		parts = append(parts, written(p))
	}
	return json.Marshal(parts)
}

// ToolCall is a call that the assistant made.
type ToolCall struct {
	ID       string   `json:"id,omitempty"`
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function is a function's name and the JSON of its arguments.
type Function struct {
	Name      string    `json:"name"`
	Arguments Arguments `json:"arguments"`
}

// Arguments is a JSON object as text, with its keys in their order.
type Arguments string

// UnmarshalJSON takes the text, as clients should send it, or the object itself.
func (a *Arguments) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, (*string)(a))
	}
	*a = Arguments(data)
	return nil
}

// messages returns the template variable of that name.
func (t *Template) messages(in []Message) (*jinja.List, error) {
	l := &jinja.List{}
	prepared := t.withoutSystem(in)
	for i, m := range prepared {
		i += len(in) - len(prepared) // the index in the request
		if m.Role == "" {
			return nil, badRequest("messages[%d] has no role", i)
		}
		d, err := t.message(m, t.caps.ObjectArguments)
		if err != nil {
			return nil, badRequest("messages[%d]: %v", i, err)
		}
		l.Items = append(l.Items, d)
	}
	return l, nil
}

func (t *Template) message(m Message, objects bool) (*jinja.Dict, error) {
	d := &jinja.Dict{}
	d.Set("role", role(m.Role))
	if m.Role == "developer" && !strings.Contains(t.source, `'developer'`) && !strings.Contains(t.source, `"developer"`) {
		d.Set("role", "system") // its older name, where the template does not compare with the new one
	}
	d.Set("content", t.content(m.Content))
	for _, field := range [][2]string{
		{"name", m.Name}, {"tool_call_id", m.ToolCallID}, {"reasoning_content", m.ReasoningContent},
	} {
		if field[1] != "" {
			d.Set(field[0], jinja.Outside(field[1]))
		}
	}
	if len(m.ToolCalls) == 0 {
		return d, nil
	}
	calls := &jinja.List{}
	for i, call := range m.ToolCalls {
		c, f := &jinja.Dict{}, &jinja.Dict{}
		if call.ID != "" {
			c.Set("id", jinja.Outside(call.ID))
		}
		c.Set("type", "function")
		c.Set("function", f)
		f.Set("name", jinja.Outside(call.Function.Name))
		f.Set("arguments", jinja.Outside(string(call.Function.Arguments)))
		if objects {
			v, err := jinja.FromJSON([]byte(cmp.Or(call.Function.Arguments, "{}")))
			if _, ok := v.(*jinja.Dict); !ok || err != nil {
				return nil, badRequest("tool_calls[%d].function.arguments is not the JSON of an object", i)
			}
			f.Set("arguments", v)
		}
		calls.Items = append(calls.Items, c)
	}
	d.Set("tool_calls", calls)
	return d, nil
}

// knownRoles are those that templates make tokens of, as in <|user|>. Any other is a text like that of a message.
var knownRoles = []string{"system", "developer", "user", "assistant", "tool", "function", "ipython", "model"}

func role(name string) any {
	if slices.Contains(knownRoles, name) {
		return name
	}
	return jinja.Outside(name)
}

// content returns a string or a list of parts, whichever the template supports. A medium is a text there, its marker: what
// templates write for a type of their own is a token, which tells the place of no medium, or nothing.
func (t *Template) content(c Content) any {
	if c.Null {
		if t.noNull {
			return ""
		}
		return nil
	}
	if c.Parts == nil && t.caps.StringContent || !t.caps.TypedContent {
		return jinja.Outside(c.String(), c.own...)
	}
	texts, own := c.Parts, [][2]int(nil)
	if texts == nil {
		texts, own = Texts(c.Text), c.own
	}
	parts := &jinja.List{}
	for _, p := range texts {
		part := &jinja.Dict{}
		part.Set("type", "text")
		part.Set("text", jinja.Outside(p.Text, own...))
		parts.Items = append(parts.Items, part)
	}
	return parts
}

// withoutSystem prepends a system message to the text of the next message, if the
// template does not support the role.
func (t *Template) withoutSystem(in []Message) []Message {
	if t.caps.SystemRole || len(in) == 0 || in[0].Role != "system" && in[0].Role != "developer" {
		return in
	}
	system := in[0]
	system.Role = "user"
	if len(in) == 1 || in[1].Role != "user" {
		return append([]Message{system}, in[1:]...)
	}
	first := in[1]
	first.Content = system.Content.before(first.Content.script())
	return append([]Message{first}, in[2:]...)
}
