package server

import (
	"context"
	stdjson "encoding/json" // for the type of chat's values
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A conversation is the input of a chat template.
type conversation struct {
	messages messages
	sent     jsontext.Value // the messages as they are in the body
	kwargs   templateValues
	effort   string
	generate option // add_generation_prompt
	resume   option // continue_final_message
	toolbox
	budget  budget
	counted bool // the prompt is only counted: no length is refused
}

func newConversation() conversation {
	return conversation{generate: option{on: true}, toolbox: newToolbox(), budget: newBudget()}
}

func (c *conversation) Fields() []field.Field {
	return append([]field.Field{
		field.Required("messages", sentMessages{&c.messages, &c.sent}, "The conversation so far."),
		field.Setting("chat_template_kwargs", &c.kwargs, "Further variables for the chat template, such as enable_thinking."),
		field.Setting("reasoning_effort", field.OneOf(&c.effort, efforts...), "For the chat template; none also turns reasoning off."),
		field.Setting("add_generation_prompt", &c.generate, "End the prompt with the beginning of the assistant's turn."),
		field.Setting("continue_final_message", &c.resume, "Go on with the last message, which is the assistant's. By default that is done where the last message is the assistant's."),
	}, append(c.budget.Fields(), c.toolbox.Fields()...)...)
}

// sentMessages are messages of which there is a copy as they were sent.
type sentMessages struct {
	*messages
	sent *jsontext.Value
}

func (m sentMessages) Take(r *field.Reader) error {
	from := r.Offset()
	err := m.messages.Take(r)
	*m.sent = r.Since(from)
	return err
}

// efforts are the values of reasoning_effort.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// messages are those of a conversation.
type messages []chat.Message

const wantMessages = `an array of messages such as {"role": "user", "content": "hello"}`

func (l *messages) Take(r *field.Reader) error {
	*l = messages{}
	err := r.Elements(wantMessages, func(i int) error {
		m, err := readMessage(r)
		*l = append(*l, m)
		return field.Within(fmt.Sprintf("message %d", i), err)
	})
	if err == nil && len(*l) == 0 {
		err = fmt.Errorf("empty, want %s", wantMessages)
	}
	return err
}

func readMessage(r *field.Reader) (m chat.Message, err error) {
	role, content := false, false
	err = r.Members("an object", func(name string) error {
		var err error
		switch name {
		case "role":
			role = true
			m.Role, err = r.Text("a string such as user")
		case "content":
			content = r.Kind() != 'n'
			m.Content, err = readContent(r)
		case "name":
			err = r.Optional(&m.Name)
		case "tool_call_id":
			err = r.Optional(&m.ToolCallID)
		case "reasoning_content":
			err = r.Optional(&m.ReasoningContent)
		case "tool_calls":
			err = readCalls(r, &m.ToolCalls)
		case "function_call":
			err = readOldCall(r, &m.ToolCalls)
		default:
			_, err = r.Raw()
		}
		return field.Within(name, err)
	})
	if m.Role == "function" { // the older name of the role
		m.Role = "tool"
	}
	switch {
	case err != nil:
		return m, err
	case !role:
		return m, reply.Bad("role: missing, want a string such as user")
	case !content && !(m.Role == "assistant" && len(m.ToolCalls) > 0):
		return m, reply.Bad("content: missing, want a string or an array of text parts")
	}
	return m, nil
}

// readContent reads text, parts of text, or null.
func readContent(r *field.Reader) (c chat.Content, err error) {
	const want = "a string or an array of text parts"
	switch r.Kind() {
	case '"':
		c.Text, err = r.Text(want)
	case 'n':
		c.Null = true
		_, err = r.Token()
	default:
		c.Parts = []string{}
		err = r.Elements(want, func(i int) error {
			part, err := readPart(r)
			c.Parts = append(c.Parts, part)
			return field.Within(fmt.Sprintf("part %d", i), err)
		})
	}
	return c, err
}

// readPart reads a part of a message. Only text is supported.
func readPart(r *field.Reader) (body string, err error) {
	kind := ""
	given := false
	err = r.Members("an object", func(name string) error {
		var err error
		switch name {
		case "type":
			kind, err = r.Text("text")
		case "text":
			given = true
			body, err = r.Text("a string")
		default:
			_, err = r.Raw()
		}
		return field.Within(name, err)
	})
	switch {
	case err != nil:
		return "", err
	case slices.Contains(media, kind):
		return "", reply.Bad("the model reads text only, want no %s", kind)
	case kind == "":
		return "", reply.Bad("type: missing, want text")
	case kind != "text":
		return "", reply.Bad("type: the string %s, want text", field.Quote(kind))
	case !given:
		return "", reply.Bad("text: missing, want a string")
	}
	return body, nil
}

// media are the types of parts that other servers support.
var media = []string{"image_url", "input_audio", "input_video", "file"}

// readOldCall reads an assistant message's function_call, the older form of tool_calls.
func readOldCall(r *field.Reader, calls *[]chat.ToolCall) error {
	if r.Kind() == 'n' {
		_, err := r.Raw()
		return err
	}
	var one chat.Function
	err := r.Decode(&one)
	if err == nil {
		*calls = []chat.ToolCall{{Type: "function", Function: one}}
	}
	return err
}

// readCalls reads an assistant message's tool calls.
func readCalls(r *field.Reader, calls *[]chat.ToolCall) error {
	var in []chatCall
	if err := r.Decode(&in); err != nil {
		return err
	}
	*calls = nil
	for i, c := range in {
		call, err := c.toChat()
		if err != nil {
			return field.Within(fmt.Sprintf("element %d", i), err)
		}
		*calls = append(*calls, call)
	}
	return nil
}

func (l *messages) Value() any { return nil }

func (l *messages) Schema() field.Schema {
	part := field.Schema{"type": "object", "required": []string{"type"}, "properties": field.Schema{"type": field.Schema{"type": "string"}, "text": field.Schema{"type": "string"}}}
	return field.Schema{
		"type": "array", "minItems": 1, "description": wantMessages,
		"items": field.Schema{"type": "object", "required": []string{"role"}, "properties": field.Schema{
			"role":    field.Schema{"type": "string"},
			"content": field.Schema{"anyOf": []field.Schema{{"type": "string"}, {"type": "array", "items": part}, {"type": "null"}}},
		}},
	}
}

// templateValues are variables of the template. take adds to them.
type templateValues map[string]jsontext.Value

func (t *templateValues) Take(r *field.Reader) error {
	if *t == nil {
		*t = templateValues{}
	}
	return r.Members("an object", func(name string) (err error) {
		(*t)[name], err = r.Raw()
		return err
	})
}

func (t *templateValues) Value() any {
	if *t == nil {
		return templateValues{}
	}
	return *t
}

func (t *templateValues) Schema() field.Schema { return field.Schema{"type": "object"} }

// An option is a boolean whose default depends on other fields.
type option struct{ given, on bool }

func (o *option) Take(r *field.Reader) error {
	o.given = true
	return field.Boolean(&o.on).Take(r)
}

func (o *option) Value() any           { return o.on }
func (o *option) Schema() field.Schema { return field.Schema{"type": "boolean"} }

// render returns the prompt of a conversation.
func (c *conversation) render(ctx context.Context, m *Model) (chat.Prompt, error) {
	if err := c.toolbox.settle(); err != nil {
		return chat.Prompt{}, err
	}
	in := chat.Input{Tools: c.shown(), Messages: c.messages, AddGenerationPrompt: c.generate.on, Kwargs: map[string]stdjson.RawMessage{}}
	for name, v := range c.kwargs {
		in.Kwargs[name] = stdjson.RawMessage(v)
	}
	n := len(c.messages)
	last := c.messages[n-1]
	assistant := last.Role == "assistant"
	switch {
	case c.resume.on && c.generate.given && c.generate.on:
		return chat.Prompt{}, reply.Invalid("continue_final_message", "true together with add_generation_prompt, want one of them")
	case c.resume.on && !assistant:
		return chat.Prompt{}, reply.Invalid("continue_final_message", "the last message is not the assistant's, want one that is")
	case !c.resume.on && (c.resume.given || !assistant || len(last.ToolCalls) > 0):
	case n > 1 && c.messages[n-2].Role == "assistant":
		return chat.Prompt{}, reply.Invalid("messages", "two messages of the assistant at the end, want one at most to go on with")
	case n == 1 && strings.TrimSpace(last.Content.String()) == "":
		return chat.Prompt{}, reply.Invalid("messages", "only an empty one of the assistant, want one to answer")
	default:
		in.AddGenerationPrompt, in.ContinueFinalMessage = false, true
	}
	if c.effort != "none" {
		in.ReasoningEffort = c.effort
	} else {
		in.Kwargs["enable_thinking"] = stdjson.RawMessage("false")
	}
	in.Until = ctx
	prompt, err := m.Template.Render(in)
	switch {
	case errors.Is(err, context.Canceled):
		return chat.Prompt{}, reply.ErrGone
	case err != nil:
		return chat.Prompt{}, &reply.Error{Status: http.StatusBadRequest, Param: "messages", Message: fmt.Sprintf("messages: %v", err)}
	}
	return prompt, nil
}

// source makes the prompt of a conversation.
func (c *conversation) source(ctx context.Context, m *Model) (source, error) {
	prompt, err := c.render(ctx, m)
	if err != nil {
		return source{}, err
	}
	ids, err := m.encodeChat(prompt, c.counted)
	return source{prompts: [][]int32{ids}, chat: &prompt, calls: c.rule(), budget: c.budget}, err
}

// encodeChat returns the tokens of a rendered conversation; all of them where they are counted, however many.
func (m *Model) encodeChat(p chat.Prompt, counted bool) ([]int32, error) {
	o := tokenizer.Options{ParseSpecial: true, Literal: p.Literal}
	if counted {
		return m.begun(m.Tokenizer.Encode(p.Text, o))
	}
	ids, err := m.encode(p.Text, o, 0)
	if err != nil {
		return nil, err
	}
	return m.begun(ids)
}
