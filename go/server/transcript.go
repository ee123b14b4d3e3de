package server

import (
	"cmp"
	"slices"

	"github.com/quern-llm/quern/go/chat"
)

// A transcript puts messages together as templates take them: turns alternate, and the
// system prompt comes first.
type transcript struct {
	messages []chat.Message
	calls    map[string]string // the names of the tools that were called, by the calls' ids
}

// add adds texts to the last message, if it is of that role, or else a message. A system
// message within the conversation, which most templates refuse, becomes the user's:
// where it stands, since what is before it is in the cache.
func (t *transcript) add(role string, texts ...string) {
	if len(texts) == 0 {
		return
	}
	last := len(t.messages) - 1
	if role == "system" && last >= 0 && t.messages[last].Role != "system" {
		role = "user"
	}
	if last < 0 || t.messages[last].Role != role {
		t.messages = append(t.messages, chat.Message{Role: role})
		last++
	}
	t.messages[last].Content = joined(t.messages[last].Content, texts)
}

// joined adds texts to content.
func joined(c chat.Content, texts []string) chat.Content {
	all := c.Parts
	if c.Text != "" {
		all = []string{c.Text}
	}
	all = append(slices.Clip(all), texts...)
	if len(all) == 1 {
		return chat.Text(all[0])
	}
	return chat.Content{Parts: all}
}

// result adds the result of a call.
func (t *transcript) result(id string, texts ...string) {
	t.messages = append(t.messages, chat.Message{Role: "tool", ToolCallID: id, Name: t.calls[id], Content: joined(chat.Content{}, texts)})
	if len(texts) == 0 {
		t.messages[len(t.messages)-1].Content = chat.Text("")
	}
}

// assistant returns the assistant's message at the end, which it adds if there is none.
func (t *transcript) assistant() *chat.Message {
	if n := len(t.messages); n == 0 || t.messages[n-1].Role != "assistant" {
		t.messages = append(t.messages, chat.Message{Role: "assistant", Content: chat.Content{Null: true}})
	}
	return &t.messages[len(t.messages)-1]
}

func (t *transcript) think(text string) {
	m := t.assistant()
	m.ReasoningContent += text
}

func (t *transcript) say(texts ...string) {
	m := t.assistant()
	if len(texts) > 0 {
		m.Content = joined(chat.Content{Text: m.Content.Text, Parts: m.Content.Parts}, texts)
	}
}

func (t *transcript) call(id, name, arguments string) {
	m := t.assistant()
	m.ToolCalls = append(m.ToolCalls, chat.ToolCall{
		ID: id, Type: "function", Function: chat.Function{Name: name, Arguments: chat.Arguments(cmp.Or(arguments, "{}"))},
	})
	if t.calls == nil {
		t.calls = map[string]string{}
	}
	t.calls[id] = name
}
