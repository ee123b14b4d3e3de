package ask

import (
	"context"
	stdjson "encoding/json" // for the type of chat's values
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A Conversation is the input of a chat template.
type Conversation struct {
	Messages Messages
	Sent     jsontext.Value // the messages as they are in the body
	Kwargs   TemplateValues
	Effort   string
	generate Option // add_generation_prompt
	resume   Option // continue_final_message
	Toolbox
	Budget  budget
	Counted bool // the prompt is only counted: no length is refused
	Begun   bool // what the model's persona begins a conversation with stands before it already
}

func NewConversation() Conversation {
	return Conversation{generate: Option{On: true}, Toolbox: newToolbox(), Budget: newBudget()}
}

// CountsPrompts has the prompt only counted.
func (c *Conversation) CountsPrompts() { c.Counted = true }

func (c *Conversation) Fields() []field.Field {
	return append([]field.Field{
		field.Required("messages", sentMessages{&c.Messages, &c.Sent}, "The conversation so far."),
		field.Setting("chat_template_kwargs", &c.Kwargs, "Further variables for the chat template, such as enable_thinking."),
		field.Setting("reasoning_effort", field.OneOf(&c.Effort, Efforts...),
			"For the chat template; none also turns reasoning off."),
		field.Setting("add_generation_prompt", &c.generate, "End the prompt with the beginning of the assistant's turn."),
		field.Setting("continue_final_message", &c.resume,
			"Go on with the last message, which is the assistant's. By default that is done where the last message is the "+
				"assistant's."),
	}, append(c.Budget.Fields(), c.Toolbox.Fields()...)...)
}

// sentMessages are messages of which there is a copy as they were sent.
type sentMessages struct {
	*Messages
	sent *jsontext.Value
}

func (m sentMessages) Take(r *field.Reader) error {
	from := r.Offset()
	err := m.Messages.Take(r)
	*m.sent = r.Since(from)
	return err
}

// Efforts are the values of reasoning_effort.
var Efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// Messages are those of a conversation.
type Messages []chat.Message

const WantMessages = `an array of messages such as {"role": "user", "content": "hello"}`

func (l *Messages) Take(r *field.Reader) (err error) {
	*l, err = ReadMessages(r, readMessage)
	return err
}

// ReadMessages reads the messages of a conversation, of which there are some, each with read.
func ReadMessages[T any](r *field.Reader, read func(*field.Reader) (T, error)) (all []T, err error) {
	err = r.Elements(WantMessages, func(i int) error {
		m, err := read(r)
		all = append(all, m)
		return field.Within(fmt.Sprintf("message %d", i), err)
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("empty, want %s", WantMessages)
	}
	return all, err
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
			err = ReadCalls(r, &m.ToolCalls)
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
		return m, reply.Bad("content: missing, want a string or an array of parts")
	}
	return m, nil
}

// readContent reads text, parts of text, or null.
func readContent(r *field.Reader) (c chat.Content, err error) {
	const want = "a string or an array of parts"
	switch r.Kind() {
	case '"':
		c.Text, err = r.Text(want)
	case 'n':
		c.Null = true
		_, err = r.Token()
	default:
		c.Parts = []chat.Part{}
		err = r.Elements(want, func(i int) error {
			part, err := readPart(r)
			c.Parts = append(c.Parts, part)
			return field.Within(fmt.Sprintf("part %d", i), err)
		})
	}
	return c, err
}

// readPart reads a part of a message: a text or a medium.
func readPart(r *field.Reader) (p chat.Part, err error) {
	kind, format := "", ""
	var given struct{ text, medium bool }
	m := chat.Medium{}
	err = r.Members("an object", func(name string) error {
		var err error
		switch name {
		case "type":
			kind, err = r.Text("text")
		case "text":
			given.text = true
			p.Text, err = r.Text("a string")
		case "image_url", "input_audio", "audio_url", "video_url", "input_video", "file":
			m.Kind = kindOf[name]
			if r.Kind() == '"' && name != "input_audio" { // the URL alone, as some clients have it
				given.medium = true
				m.Source, err = r.Text("a URL")
				break
			}
			err = r.Members("an object", func(name string) error {
				var err error
				switch name {
				case "url":
					given.medium = true
					m.Source, err = r.Text("a URL")
				case "data", "file_data":
					given.medium = true
					if m.Source, err = r.Text("a file in base64"); name == "data" {
						m.Source = Base64(m.Source)
					}
				case "file_id":
					given.medium = true
					m.Source, err = r.Text("an id of a file")
					m.Source = Uploaded(m.Source)
				case "filename":
					err = r.Optional(&m.Name)
				case "fps":
					err = field.Float(&m.Rate, MinRate, MaxRate).Take(r)
				case "detail":
					err = r.Optional(&m.Detail)
				case "format":
					err = r.Optional(&format) // files tell themselves what they are
				default:
					_, err = r.Raw()
				}
				return field.Within(name, err)
			})
		default:
			_, err = r.Raw()
		}
		return field.Within(name, err)
	})
	medium := wantMedium[kind] != ""
	switch {
	case err != nil:
		return p, err
	case kind == "":
		return p, reply.Bad("type: missing, want one of %s", partTypes)
	case kind != "text" && !medium:
		return p, reply.Bad("type: the string %s, want one of %s", field.Quote(kind), partTypes)
	case kind == "text" && !given.text:
		return p, reply.Bad("text: missing, want a string")
	case kind == "text":
		return chat.Part{Text: p.Text}, nil
	case !given.medium:
		return p, reply.Bad("%s: missing, want an object such as %s", kind, wantMedium[kind])
	}
	m.Document = kind == "file"
	return chat.Part{Medium: &m}, nil
}

// partTypes are the types of parts of content.
const partTypes = "text, image_url, input_audio, audio_url, video_url, input_video, file"

// kindOf is the kind of media in parts of these types.
var kindOf = map[string]chat.Kind{
	"image_url": chat.Picture, "input_audio": chat.Sound, "audio_url": chat.Sound, "video_url": chat.Video, "input_video": chat.Video,
}

// wantMedium is what parts of these types have.
var wantMedium = map[string]string{
	"image_url":   `{"url": "data:image/png;base64,..."}`,
	"input_audio": `{"data": "base64 of a file", "format": "wav"}`,
	"audio_url":   `{"url": "data:audio/wav;base64,..."}`,
	"video_url":   `{"url": "data:video/jpeg;base64,FRAME,FRAME,...", "fps": 2}`,
	"input_video": `{"data": "data:video/jpeg;base64,FRAME,FRAME,...", "fps": 2}`,
	"file":        `{"file_data": "data:image/png;base64,..."}`,
}

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

// ReadCalls reads an assistant message's tool calls.
func ReadCalls(r *field.Reader, calls *[]chat.ToolCall) error {
	var in []ChatCall
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

func (l *Messages) Value() any { return nil }

func (l *Messages) Schema() field.Schema {
	text := field.Schema{"type": "string"}
	object := func(names ...string) field.Schema {
		all := field.Schema{}
		for _, name := range names {
			all[name] = text
		}
		return field.Schema{"type": "object", "properties": all}
	}
	part := field.Schema{"type": "object", "required": []string{"type"}, "properties": field.Schema{
		"type": field.Schema{"enum": strings.Split(partTypes, ", ")}, "text": text, "image_url": object("url", "detail"),
		"input_audio": object("data", "format"), "audio_url": object("url"), "video_url": object("url"), "input_video": object("data"), "file": object("file_data", "file_id", "filename")}}
	return field.Schema{
		"type": "array", "minItems": 1, "description": WantMessages,
		"items": field.Schema{"type": "object", "required": []string{"role"}, "properties": field.Schema{
			"role": field.Schema{"type": "string"},
			"content": field.Schema{"anyOf": []field.Schema{{"type": "string"}, {"type": "array", "items": part},
				{"type": "null"}}},
		}},
	}
}

// TemplateValues are variables of the template. take adds to them.
type TemplateValues map[string]jsontext.Value

func (t *TemplateValues) Take(r *field.Reader) error {
	if *t == nil {
		*t = TemplateValues{}
	}
	return r.Members("an object", func(name string) (err error) {
		(*t)[name], err = r.Raw()
		return err
	})
}

func (t *TemplateValues) Value() any           { return *t }
func (t *TemplateValues) Schema() field.Schema { return field.Schema{"type": "object"} }

// An Option is a boolean whose default depends on other fields.
type Option struct{ Given, On bool }

func (o *Option) Take(r *field.Reader) error {
	o.Given = true
	return field.Boolean(&o.On).Take(r)
}

func (o *Option) Value() any           { return o.On }
func (o *Option) Schema() field.Schema { return field.Schema{"type": "boolean"} }

// Render returns the prompt of a conversation.
func (c *Conversation) Render(ctx context.Context, m *Model) (chat.Prompt, error) {
	if err := c.Toolbox.settle(); err != nil {
		return chat.Prompt{}, err
	}
	messages := []chat.Message(c.Messages)
	if !c.Begun {
		messages = m.Persona.Conversation(messages)
	}
	in := chat.Input{Tools: c.shown(), Messages: messages, AddGenerationPrompt: c.generate.On,
		Kwargs: map[string]stdjson.RawMessage{}}
	for name, v := range c.Kwargs {
		in.Kwargs[name] = stdjson.RawMessage(v)
	}
	n := len(messages)
	last := messages[n-1]
	assistant := last.Role == "assistant"
	switch {
	case c.resume.On && c.generate.Given && c.generate.On:
		return chat.Prompt{}, reply.Invalid("continue_final_message",
			"true together with add_generation_prompt, want one of them")
	case c.resume.On && !assistant:
		return chat.Prompt{}, reply.Invalid("continue_final_message",
			"the last message is not the assistant's, want one that is")
	case !c.resume.On && (c.resume.Given || !assistant || len(last.ToolCalls) > 0):
	case n > 1 && messages[n-2].Role == "assistant":
		return chat.Prompt{}, reply.Invalid("messages",
			"two messages of the assistant at the end, want one at most to go on with")
	case n == 1 && strings.TrimSpace(last.Content.String()) == "":
		return chat.Prompt{}, reply.Invalid("messages", "only an empty one of the assistant, want one to answer")
	default:
		in.AddGenerationPrompt, in.ContinueFinalMessage = false, true
	}
	if c.Effort != "none" {
		in.ReasoningEffort = c.Effort
	} else {
		in.Kwargs["enable_thinking"] = stdjson.RawMessage("false")
	}
	in.Until = ctx
	var err error
	if in.Messages, err = m.bring(ctx, messages); err != nil {
		return chat.Prompt{}, err
	}
	prompt, err := m.Template.Render(in)
	switch {
	case err != nil && ctx.Err() != nil:
		return chat.Prompt{}, Ended(ctx)
	case err != nil:
		return chat.Prompt{}, &reply.Error{Status: http.StatusBadRequest, Param: "messages",
			Message: fmt.Sprintf("messages: %v", err), InLog: "messages: the chat template refuses them"}
	}
	return prompt, nil
}

// Source makes the prompt of a conversation.
func (c *Conversation) Source(ctx context.Context, m *Model) (Source, error) {
	ctx, free := holdTexts(ctx)
	defer free()
	prompt, err := c.Render(ctx, m)
	if err != nil {
		return Source{}, err
	}
	calls, err := c.rule(ctx)
	if err != nil {
		return Source{}, err
	}
	src := Source{Chat: &prompt, calls: calls, Budget: c.Budget}
	p, err := m.Tokens(ctx, prompt.Pieces(), "prompt", c.Counted)
	if err != nil {
		return Source{}, err
	}
	src.Add(p)
	return src, nil
}
