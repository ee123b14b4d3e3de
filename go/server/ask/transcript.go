package ask

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/chat"
)

// A Transcript puts messages together as templates take them: turns alternate, and the
// system prompt comes first.
type Transcript struct {
	Messages []chat.Message
	calls    map[string]string // the names of the tools that were called, by the calls' ids

	// Of the message with this number, from 1, the parts of its content are this transcript's alone; and so are the
	// thoughts of that message.
	grown, thinks int
	thoughts      strings.Builder
}

// Add adds parts to the last message, if it is of that role, or else a message. A system
// message within the conversation, which most templates refuse, becomes the user's:
// where it stands, since what is before it is in the cache.
func (t *Transcript) Add(role string, parts ...chat.Part) {
	if len(parts) == 0 {
		return
	}
	last := len(t.Messages) - 1
	if role == "system" && last >= 0 && t.Messages[last].Role != "system" {
		role = "user"
	}
	if last < 0 || t.Messages[last].Role != role {
		t.Messages = append(t.Messages, chat.Message{Role: role})
	}
	t.join(parts)
}

// join adds parts to the last message.
func (t *Transcript) join(parts []chat.Part) {
	n := len(t.Messages)
	c := &t.Messages[n-1].Content
	if t.grown != n {
		c.Parts = slices.Clip(c.Parts)
		t.grown = n
	}
	*c = joined(chat.Content{Text: c.Text, Parts: c.Parts}, parts)
}

// joined adds parts to content, whose own may be of no other.
func joined(c chat.Content, parts []chat.Part) chat.Content {
	all := c.Parts
	if c.Text != "" {
		all = chat.Texts(c.Text)
	}
	all = append(all, parts...)
	if len(all) == 1 && all[0].Medium == nil {
		return chat.Text(all[0].Text)
	}
	return chat.Content{Parts: all}
}

// Result adds the result of a call.
func (t *Transcript) Result(id string, parts ...chat.Part) {
	t.Messages = append(t.Messages, chat.Message{Role: "tool", ToolCallID: id, Name: t.calls[id],
		Content: joined(chat.Content{}, parts)})
	if len(parts) == 0 {
		t.Messages[len(t.Messages)-1].Content = chat.Text("")
	}
}

// assistant returns the assistant's message at the end, which it adds if there is none.
func (t *Transcript) assistant() *chat.Message {
	if n := len(t.Messages); n == 0 || t.Messages[n-1].Role != "assistant" {
		t.Messages = append(t.Messages, chat.Message{Role: "assistant", Content: chat.Content{Null: true}})
	}
	return &t.Messages[len(t.Messages)-1]
}

func (t *Transcript) Think(text string) {
	m := t.assistant()
	if n := len(t.Messages); t.thinks != n {
		t.thinks = n
		t.thoughts.Reset()
		t.thoughts.WriteString(m.ReasoningContent)
	}
	t.thoughts.WriteString(text)
	m.ReasoningContent = t.thoughts.String()
}

func (t *Transcript) Say(parts ...chat.Part) {
	t.assistant()
	if len(parts) > 0 {
		t.join(parts)
	}
}

func (t *Transcript) Call(id, name, arguments string) {
	m := t.assistant()
	m.ToolCalls = append(m.ToolCalls, chat.ToolCall{
		ID: id, Type: "function", Function: chat.Function{Name: name, Arguments: chat.Arguments(cmp.Or(arguments, "{}"))},
	})
	if t.calls == nil {
		t.calls = map[string]string{}
	}
	t.calls[id] = name
}
