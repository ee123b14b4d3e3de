package quern

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/chat"
)

// A Role says whose message it is.
type Role string

// The roles of messages.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool" // its parts are results of calls
)

// A Message is one of a conversation. It can be encoded as JSON and decoded again.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// A Part is a part of a message: one of its fields is set.
type Part struct {
	Text      string      `json:"text,omitempty"`
	Reasoning string      `json:"reasoning,omitempty"` // of the assistant, before its text
	Call      *ToolCall   `json:"call,omitempty"`      // of the assistant
	Result    *ToolResult `json:"result,omitempty"`    // of a call
	Image     []byte      `json:"image,omitempty"`     // a file such as PNG or JPEG
	Audio     []byte      `json:"audio,omitempty"`     // a file such as WAV or MP3
	Video     *Video      `json:"video,omitempty"`     // of models that take images
}

// A Video is a film without sound.
type Video struct {
	Frames [][]byte `json:"frames"`         // files such as JPEG, of one size and at most 128; or one animated GIF
	Rate   float32  `json:"rate,omitempty"` // frames a second; 0: 2. An animation says itself
}

// A ToolCall is a call of a tool that the model asks for.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // a JSON object
}

// A ToolResult is what a tool answers to a call.
type ToolResult struct {
	ID    string `json:"id"`   // of the call
	Name  string `json:"name"` // of the tool; "": that of the call
	Text  string `json:"text"`
	Parts []Part `json:"parts,omitempty"` // what comes after the text: more texts, images, sounds and videos
}

// System returns a message that says how the model is to answer. It comes first.
func System(text string) Message { return Message{RoleSystem, []Part{{Text: text}}} }

// User returns a message of the user.
func User(text string) Message { return Message{RoleUser, []Part{{Text: text}}} }

// Assistant returns a message of the model. As the last one of a conversation it is the beginning of the answer.
func Assistant(text string) Message { return Message{RoleAssistant, []Part{{Text: text}}} }

// ResultOf returns the message that answers a call of a tool with a text, or with parts after it: texts, images and sounds. A
// model that takes none of a kind is told so in their place.
func ResultOf(call ToolCall, text string, more ...Part) Message {
	return Message{RoleTool, []Part{{Result: &ToolResult{call.ID, call.Name, text, more}}}}
}

// Text returns the text of the message, without reasoning, calls and results.
func (m Message) Text() string {
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// Reasoning returns the reasoning of the message.
func (m Message) Reasoning() string {
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(p.Reasoning)
	}
	return b.String()
}

// Calls returns the calls of tools that the message asks for.
func (m Message) Calls() []ToolCall {
	var calls []ToolCall
	for _, p := range m.Parts {
		if p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}

// rendered returns messages as chat templates take them. Results of several calls in one message are a message each; one
// that has no name has that of the call before it with its ID.
func rendered(messages []Message) ([]chat.Message, error) {
	var all []chat.Message
	names := map[string]string{}
	for i, m := range messages {
		list, err := m.rendered()
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		for _, call := range m.Calls() {
			names[call.ID] = call.Name
		}
		for k := range list {
			if list[k].Name == "" {
				list[k].Name = names[list[k].ToolCallID]
			}
		}
		all = append(all, list...)
	}
	return all, nil
}

// content returns a text, an image, a sound or a video.
func (p Part) content() chat.Part {
	switch {
	case p.Image != nil:
		return chat.Part{Medium: &chat.Medium{Kind: chat.Picture, Data: p.Image}}
	case p.Audio != nil:
		return chat.Part{Medium: &chat.Medium{Kind: chat.Sound, Data: p.Audio}}
	case p.Video != nil:
		return chat.Part{Medium: p.Video.medium()}
	}
	return chat.Part{Text: p.Text}
}

// medium returns the video as it is read: an animation, or frames.
func (v *Video) medium() *chat.Medium {
	m := &chat.Medium{Kind: chat.Video, Frames: v.Frames, Rate: v.Rate}
	if m.Frames == nil {
		m.Frames = [][]byte{}
	}
	if len(v.Frames) == 1 && bytes.HasPrefix(v.Frames[0], []byte("GIF8")) {
		m.Data, m.Frames = v.Frames[0], nil
	}
	return m
}

// content returns what a tool answered.
func (r *ToolResult) content() (c chat.Content, err error) {
	if len(r.Parts) == 0 {
		return chat.Text(r.Text), nil
	}
	if r.Text != "" {
		c.Parts = chat.Texts(r.Text)
	}
	for i, p := range r.Parts {
		if p.Reasoning != "" || p.Call != nil || p.Result != nil {
			return c, fmt.Errorf("part %d of a result is no text, image, sound or video", i)
		}
		c.Parts = append(c.Parts, p.content())
	}
	return c, nil
}

func (m Message) rendered() ([]chat.Message, error) {
	one := chat.Message{Role: string(m.Role)}
	var parts []chat.Part
	var results []chat.Message
	for k, p := range m.Parts {
		set := 0
		for _, is := range []bool{p.Text != "", p.Reasoning != "", p.Call != nil, p.Result != nil, p.Image != nil, p.Audio != nil, p.Video != nil} {
			if is {
				set++
			}
		}
		switch {
		case set > 1:
			return nil, invalid(fmt.Sprintf("part %d has %d of its fields, want one", k, set))
		case (p.Reasoning != "" || p.Call != nil) && m.Role != RoleAssistant:
			return nil, invalid(fmt.Sprintf("part %d is reasoning or a call in a message of the role %q; want assistant", k, m.Role))
		case (p.Result != nil) != (m.Role == RoleTool):
			return nil, invalid(fmt.Sprintf("part %d: results of calls, and these alone, are in messages of the role tool", k))
		case p.Call != nil:
			one.ToolCalls = append(one.ToolCalls, chat.ToolCall{
				ID: p.Call.ID, Type: "function", Function: chat.Function{Name: p.Call.Name, Arguments: chat.Arguments(p.Call.Arguments)},
			})
		case p.Result != nil:
			content, err := p.Result.content()
			if err != nil {
				return nil, invalid(fmt.Sprintf("part %d: %v", k, err))
			}
			results = append(results, chat.Message{Role: "tool", ToolCallID: p.Result.ID, Name: p.Result.Name, Content: content})
		case p.Reasoning != "":
			one.ReasoningContent += p.Reasoning
		default:
			parts = append(parts, p.content())
		}
	}
	switch m.Role {
	case RoleTool:
		return results, nil
	case RoleSystem, RoleUser, RoleAssistant:
	default:
		return nil, invalid(fmt.Sprintf("the role %q, want system, user, assistant or tool", m.Role))
	}
	switch {
	case len(parts) == 1 && parts[0].Medium == nil:
		one.Content = chat.Text(parts[0].Text)
	case len(parts) > 0:
		one.Content = chat.Content{Parts: parts}
	case len(one.ToolCalls) > 0:
		one.Content = chat.Content{Null: true}
	default:
		one.Content = chat.Text("")
	}
	return []chat.Message{one}, nil
}
