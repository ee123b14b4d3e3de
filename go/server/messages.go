package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A conversation is messages that were looked through.
type conversation []chat.Message

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

func readMessage(v jsontext.Value) (m chat.Message, err error) {
	fields, err := readObject(v)
	if err != nil {
		return m, err
	}
	if role := fields["role"]; role.Kind() != '"' {
		return m, bad("role: %v", missing(role, "a string such as user"))
	}
	content := fields["content"]
	if content.Kind() == '[' {
		if err := checkParts(content); err != nil {
			return m, wrap("content", err)
		}
	}
	var mismatch *json.UnmarshalTypeError
	switch err := json.Unmarshal(v, &m); {
	case errors.As(err, &mismatch):
		return m, bad("%s: it is of type %s, want %s", mismatch.Field, mismatch.Value, mismatch.Type)
	case err != nil:
		return m, err
	}
	if kind := content.Kind(); kind != '"' && kind != '[' && !(m.Role == "assistant" && len(m.ToolCalls) > 0) {
		return m, bad("content: %v", missing(content, "a string or an array of text parts"))
	}
	return m, nil
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
	all := maps.Clone(*t) // the defaults, which a request adds to
	if all == nil {
		all = templateValues{}
	}
	for name, value := range m {
		all[name] = json.RawMessage(value)
	}
	*t = all
	return err
}

func (t *templateValues) value() any {
	if *t == nil {
		return templateValues{}
	}
	return *t
}

func (t *templateValues) schema() schema { return schema{"type": "object"} }

// An option is a boolean whose default depends on other fields.
type option struct{ given, on bool }

func (o *option) take(v jsontext.Value) error {
	o.given = true
	return boolean{&o.on}.take(v)
}

func (o *option) value() any     { return o.on }
func (o *option) schema() schema { return schema{"type": "boolean"} }

// render returns the prompt of a conversation.
func (q *query) render(m *Model) (chat.Prompt, error) {
	c := chat.Input{Messages: q.messages, AddGenerationPrompt: q.generate.on, Kwargs: map[string]json.RawMessage{}}
	maps.Copy(c.Kwargs, q.template)
	last := q.messages[len(q.messages)-1]
	assistant := last.Role == "assistant"
	switch {
	case q.resume.on && q.generate.given && q.generate.on:
		return chat.Prompt{}, invalid("continue_final_message", "true together with add_generation_prompt, want one of them")
	case q.resume.on && !assistant:
		return chat.Prompt{}, invalid("continue_final_message", "the last message is not the assistant's, want one that is")
	case q.resume.on || !q.resume.given && assistant && len(last.ToolCalls) == 0:
		if n := len(q.messages); n > 1 && q.messages[n-2].Role == "assistant" {
			return chat.Prompt{}, invalid("messages", "two messages of the assistant at the end, want one at most to go on with")
		}
		c.AddGenerationPrompt, c.ContinueFinalMessage = false, true
	}
	if q.effort != "none" {
		c.ReasoningEffort = q.effort
	} else {
		c.Kwargs["enable_thinking"] = json.RawMessage("false")
	}
	prompt, err := m.Template.Render(c)
	if err != nil {
		return chat.Prompt{}, &apiError{status: http.StatusBadRequest, param: "messages", message: fmt.Sprintf("messages: %v", err)}
	}
	return prompt, nil
}

// encodeChat returns the tokens of a rendered conversation.
func (m *Model) encodeChat(text string) ([]int32, error) {
	return m.begun(m.Tokenizer.Encode(text, tokenizer.Options{ParseSpecial: true}))
}
