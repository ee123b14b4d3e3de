package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/tokenizer"
)

// A Template writes conversations the way a model was trained on.
type Template interface {
	Render(c Conversation) (string, error)
	Source() string // the template itself
}

// A Conversation is what a template is given.
type Conversation struct {
	Messages             []json.RawMessage // each with a role, and content that is text, parts of text, or null
	AddGenerationPrompt  bool              // end with the head of an assistant's message
	ContinueFinalMessage bool              // end within the last message, which is an assistant's
	ReasoningEffort      string
	Kwargs               map[string]json.RawMessage // more variables
}

// A conversation is messages that were looked through.
type conversation []message

type message struct {
	raw       json.RawMessage
	assistant bool
	calls     bool // has tool calls
}

const wantMessages = `an array of messages such as {"role": "user", "content": "hello"}`

func (c *conversation) take(v jsontext.Value) error {
	if v.Kind() != '[' {
		return wrong(v, wantMessages)
	}
	*c = conversation{}
	err := eachOf(v, func(i int, v jsontext.Value) error {
		m, err := readMessage(v)
		if err != nil {
			return wrap(fmt.Sprintf("message %d", i), err)
		}
		*c = append(*c, m)
		return nil
	})
	if err == nil && len(*c) == 0 {
		err = fmt.Errorf("empty, want %s", wantMessages)
	}
	return err
}

func readMessage(v jsontext.Value) (message, error) {
	m := message{raw: json.RawMessage(v.Clone())}
	fields, err := readObject(v)
	if err != nil {
		return m, err
	}
	role := fields["role"]
	if role.Kind() != '"' {
		return m, bad("role: %v", missing(role, "a string such as user"))
	}
	m.assistant = str(role) == "assistant"
	if calls := fields["tool_calls"]; calls.Kind() == '[' {
		m.calls = string(calls) != "[]"
	}
	switch content := fields["content"]; {
	case content.Kind() == '"':
		return m, nil
	case content.Kind() == '[':
		return m, wrap("content", checkParts(content))
	case m.assistant && m.calls && (content == nil || content.Kind() == 'n'):
		return m, nil // the calls are what it says
	default:
		return m, bad("content: %v", missing(content, "a string or an array of text parts"))
	}
}

// missing is wrong, for values that may be absent.
func missing(v jsontext.Value, want string) error {
	if v == nil {
		return fmt.Errorf("missing, want %s", want)
	}
	return wrong(v, want)
}

// checkParts takes parts that are text.
func checkParts(v jsontext.Value) error {
	return eachOf(v, func(i int, v jsontext.Value) error {
		fields, err := readObject(v)
		if err != nil {
			return wrap(fmt.Sprintf("part %d", i), err)
		}
		kind := fields["type"]
		switch {
		case kind.Kind() != '"':
			return bad("part %d: type: %v", i, missing(kind, "text"))
		case slices.Contains(media, str(kind)):
			return unsupported("part %d: the model reads text only, want no %s", i, str(kind))
		case str(kind) != "text":
			return bad("part %d: type: %v", i, wrong(kind, "text"))
		}
		if body := fields["text"]; body.Kind() != '"' {
			return bad("part %d: text: %v", i, missing(body, "a string"))
		}
		return nil
	})
}

// media are the parts that other servers can read.
var media = []string{"image_url", "input_audio", "input_video", "file"}

func (c *conversation) value() any { return nil }

func (c *conversation) schema() schema {
	part := schema{"type": "object", "required": []string{"type"}, "properties": schema{"type": schema{"type": "string"}, "text": schema{"type": "string"}}}
	return schema{
		"type": "array", "minItems": 1, "description": wantMessages,
		"items": schema{"type": "object", "required": []string{"role"}, "properties": schema{
			"role":    schema{"type": "string"},
			"content": schema{"anyOf": []schema{{"type": "string"}, {"type": "array", "items": part}, {"type": "null"}}},
		}},
	}
}

// templateValues are variables for the template.
type templateValues map[string]json.RawMessage

func (t *templateValues) take(v jsontext.Value) error {
	if v.Kind() != '{' {
		return wrong(v, "an object")
	}
	m, err := readObject(v)
	*t = templateValues{}
	for name, value := range m {
		(*t)[name] = json.RawMessage(value)
	}
	return err
}

func (t *templateValues) value() any {
	if *t == nil {
		return templateValues{}
	}
	return *t
}

func (t *templateValues) schema() schema { return schema{"type": "object"} }

// resume says whether the last message is to be gone on with.
type resume struct{ given, on bool }

func (r *resume) take(v jsontext.Value) error {
	r.given = true
	return boolean{&r.on}.take(v)
}

func (r *resume) value() any     { return r.on }
func (r *resume) schema() schema { return schema{"type": "boolean"} }

// render returns the prompt of a conversation.
func (q *query) render(m *Model) (string, error) {
	if m.Template == nil {
		return "", unsupported("this model has no chat template, so it takes no messages; give it one with --chat-template, or a prompt at /v1/completions")
	}
	c := Conversation{AddGenerationPrompt: q.generate, Kwargs: map[string]json.RawMessage{}}
	maps.Copy(c.Kwargs, q.template)
	for _, m := range q.messages {
		c.Messages = append(c.Messages, m.raw)
	}
	last := q.messages[len(q.messages)-1]
	switch {
	case q.resume.on && !last.assistant:
		return "", invalid("continue_final_message", "the last message is not the assistant's, want one that is")
	case q.resume.on || !q.resume.given && last.assistant && !last.calls:
		if n := len(q.messages); n > 1 && q.messages[n-2].assistant {
			return "", invalid("messages", "two messages of the assistant at the end, want one at most to go on with")
		}
		c.AddGenerationPrompt, c.ContinueFinalMessage = false, true
	}
	if q.effort != "none" {
		c.ReasoningEffort = q.effort
	} else {
		c.Kwargs["enable_thinking"] = json.RawMessage("false")
	}
	text, err := m.Template.Render(c)
	if err != nil {
		return "", &apiError{status: http.StatusBadRequest, param: "messages", message: fmt.Sprintf("messages: %v", err)}
	}
	return text, nil
}

// encodeChat returns the tokens of a rendered conversation.
func (m *Model) encodeChat(text string) ([]int32, error) {
	return m.begun(m.Tokenizer.Encode(text, tokenizer.Options{ParseSpecial: true}))
}
